// Row kernels: embedding lookup, gather and scatter of rows. Rows that meet are added in a fixed order, by
// sorted index: no float atomics.
#pragma once

#include "core/cuda/kernels/index.h"
#include "core/cuda/kernels/map.h"
#include "core/kernels.h"

namespace copylab::cuda {

template <class T>
void embedding(const T* table, const int32_t* ids, T* y, int64_t n, int64_t dim, int64_t vocab) {
  uint64_t* errors = index_errors();
  map(
      n * dim, CL_LAMBDA(int64_t i) {
        const int64_t row = i / dim, id = ids[row];
        y[i] = in_table(ids[row], 0, vocab, row, errors, IndexUser::embedding) ? table[id * dim + i % dim]
                                                                               : T(0);
      });
}

template <class T>
void gather_rows(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows, bool add) {
  uint64_t* errors = index_errors();
  map(
      n * dim, CL_LAMBDA(int64_t i) {
        const int64_t row = i / dim, from = index[row];
        const bool valid = in_table(index[row], -1, rows, row, errors, IndexUser::gather_rows) && from >= 0;
        const T value = valid ? x[from * dim + i % dim] : T(0);
        y[i] = add ? y[i] + value : value;
      });
}

// Sorted positions are cut into pieces of this many. A run of equal keys inside one piece is added to its row
// at once; the parts of a run that crosses pieces wait in `partial`, and are then joined in order.
constexpr int64_t kPiece = 64;

template <class T>
struct Scatter {
  const T* x;             // (n, D)
  const int32_t* sorted;  // (n) keys: row + 1, or 0 for none
  const int32_t* order;   // (n) where each was
  T* y;                   // (rows, D)
  T* partial;             // (pieces, 2, D): the run that comes in from before, and the one that goes on
  int64_t n, dim;
};

// One thread per piece and column.
template <class T>
CL_DEVICE void add_piece(const Scatter<T>& s, int64_t piece, int64_t j) {
  const int64_t begin = piece * kPiece, end = minimum(s.n, begin + kPiece);
  for (int64_t i = begin; i < end;) {
    const int32_t key = s.sorted[i];
    const bool comes_in = i == begin && i > 0 && s.sorted[i - 1] == key;
    T sum = 0;
    for (; i < end && s.sorted[i] == key; ++i) sum += s.x[s.order[i] * s.dim + j];
    const bool goes_on = i == end && i < s.n && s.sorted[i] == key;
    if (comes_in)
      s.partial[2 * piece * s.dim + j] = sum;
    else if (goes_on)
      s.partial[(2 * piece + 1) * s.dim + j] = sum;
    else if (key > 0)
      s.y[(key - 1) * s.dim + j] += sum;
  }
}

// The run that begins in `piece` and goes on beyond it, if there is one.
template <class T>
CL_DEVICE void join_pieces(const Scatter<T>& s, int64_t piece, int64_t j) {
  const int64_t begin = piece * kPiece, end = minimum(s.n, begin + kPiece);
  const int32_t key = s.sorted[end - 1];
  if (key == 0 || end == s.n || s.sorted[end] != key) return;                     // does not go on
  if (begin > 0 && s.sorted[begin - 1] == key && s.sorted[begin] == key) return;  // began before
  T sum = s.partial[(2 * piece + 1) * s.dim + j];
  for (int64_t next = piece + 1; next * kPiece < s.n && s.sorted[next * kPiece] == key; ++next)
    sum += s.partial[2 * next * s.dim + j];
  s.y[(key - 1) * s.dim + j] += sum;
}

template <class T>
void scatter(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows, int64_t lowest,
             IndexUser user) {
  if (n == 0 || dim == 0) return;
  const int64_t pieces = ceil_div(n, kPiece);
  Workspace workspace;
  int32_t* keys = workspace.take<int32_t>(n);
  int32_t* sorted = workspace.take<int32_t>(n);
  int32_t* order = workspace.take<int32_t>(n);
  const Scatter<T> s{x, sorted, order, y, workspace.take<T>(2 * pieces * dim), n, dim};
  uint64_t* errors = index_errors();
  map(
      n, CL_LAMBDA(int64_t i) {
        keys[i] = in_table(index[i], lowest, rows, i, errors, user) ? index[i] + 1 : 0;
      });
  sort(keys, n, sorted, order);
  map(
      pieces * dim, CL_LAMBDA(int64_t i) { add_piece(s, i / dim, i % dim); });
  map(
      pieces * dim, CL_LAMBDA(int64_t i) { join_pieces(s, i / dim, i % dim); });
}

template <class T>
void scatter_rows_add(const T* x, const int32_t* index, T* y, int64_t n, int64_t dim, int64_t rows) {
  scatter(x, index, y, n, dim, rows, -1, IndexUser::scatter_rows);
}

template <class T>
void embedding_backward(const int32_t* ids, const T* dy, T* dtable, int64_t n, int64_t dim, int64_t vocab) {
  scatter(dy, ids, dtable, n, dim, vocab, 0, IndexUser::embedding);
}

template <class T>
void fill_rows(KernelTable<T>& k) {
  k.embedding = embedding<T>;
  k.embedding_backward = embedding_backward<T>;
  k.gather_rows = gather_rows<T>;
  k.scatter_rows_add = scatter_rows_add<T>;
}

}  // namespace copylab::cuda
