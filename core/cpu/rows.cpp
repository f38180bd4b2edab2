// Row kernels: embedding lookup, gather and scatter of rows, with deterministic accumulation.
#include <algorithm>
#include <cstring>

#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/error.h"

namespace copylab::cpu {
namespace {

void check_index(const char* op, const int32_t* index, int64_t n, int64_t lowest, int64_t rows) {
  for (int64_t i = 0; i < n; ++i)
    expect(index[i] >= lowest && index[i] < rows, op, "rows 0..{}{} expected: got {} at {}", rows - 1,
           lowest < 0 ? " or -1" : "", index[i], i);
}

// f(i) for each of n rows of `dim` numbers, in parallel blocks of rows.
template <class F>
void for_rows(int64_t n, int64_t dim, F&& f) {
  const int64_t block = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, dim));
  parallel_for((n + block - 1) / block, n * dim, [&](int64_t task) {
    for (int64_t i = task * block; i < std::min(n, (task + 1) * block); ++i) f(i);
  });
}

template <class T>
void embedding(const T* table, const int32_t* ids, T* y, int64_t n, int64_t dim, int64_t vocab) {
  check_index("embedding", ids, n, 0, vocab);
  for_rows(n, dim, [&](int64_t i) { std::memcpy(y + i * dim, table + ids[i] * dim, sizeof(T) * dim); });
}

// Tasks own columns, so that each sum runs over positions in order whatever the number of threads, and rows
// that no index names are never touched. No sorting is needed for that.
template <class T>
void scatter_rows_add(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows) {
  check_index("scatter_rows", index, n, -1, rows);
  constexpr int64_t kColumns = 32;
  parallel_for((dim + kColumns - 1) / kColumns, n * dim, [&](int64_t task) {
    const int64_t begin = task * kColumns, end = std::min(dim, begin + kColumns);
    for (int64_t i = 0; i < n; ++i) {
      if (index[i] < 0) continue;
      const T* from = x + i * dim;
      T* to = y + index[i] * dim;
      for (int64_t j = begin; j < end; ++j) to[j] += from[j];
    }
  });
}

template <class T>
void embedding_backward(const int32_t* ids, const T* dy, T* dtable, int64_t n, int64_t dim, int64_t vocab) {
  scatter_rows_add(dy, ids, dtable, n, dim, vocab);
}

template <class T>
void gather_rows(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows, bool add) {
  check_index("gather_rows", index, n, -1, rows);
  for_rows(n, dim, [&](int64_t i) {
    T* to = y + i * dim;
    const T* from = x + index[i] * dim;
    if (index[i] < 0) {
      if (!add) std::fill_n(to, dim, T(0));
    } else if (add) {
      for (int64_t j = 0; j < dim; ++j) to[j] += from[j];
    } else {
      std::memcpy(to, from, sizeof(T) * dim);
    }
  });
}

}  // namespace

template <class T>
void fill_rows(KernelTable<T>& k) {
  k.embedding = embedding<T>;
  k.embedding_backward = embedding_backward<T>;
  k.gather_rows = gather_rows<T>;
  k.scatter_rows_add = scatter_rows_add<T>;
}
template void fill_rows(KernelTable<float>&);
template void fill_rows(KernelTable<double>&);

}  // namespace copylab::cpu
