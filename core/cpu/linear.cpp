// linear on the CPU: y = x·wᵀ + b and its gradients, three matrix products.
#include "core/cpu/gemm.h"
#include "core/cpu/kernels.h"

namespace copylab::cpu {
namespace {

template <class T>
void linear(const T* x, const T* w, const T* bias, T* y, int64_t n, int64_t in, int64_t out) {
  if (bias) {
    parallel_chunks(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) std::copy_n(bias, out, y + i * out);
    });
  }
  gemm::multiply<T>(n, out, in, {x, in, 1}, {w, 1, in}, y, out, bias != nullptr);
}

template <class T>
void linear_backward(const T* x, const T* w, const T* dy, T* dx, T* dw, T* dbias, int64_t n, int64_t in,
                     int64_t out) {
  if (dx) gemm::multiply<T>(n, in, out, {dy, out, 1}, {w, in, 1}, dx, in, true);
  if (dw) gemm::multiply<T>(out, in, n, {dy, 1, out}, {x, in, 1}, dw, in, true);
  if (dbias) {
    constexpr int64_t kChunk = 64;
    parallel_for((out + kChunk - 1) / kChunk, n * out, [&](int64_t task) {
      const int64_t begin = task * kChunk, end = std::min(out, begin + kChunk);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = begin; j < end; ++j) dbias[j] += dy[i * out + j];
      }
    });
  }
}

}  // namespace

template <class T>
void fill_linear(KernelTable<T>& k) {
  k.linear = linear<T>;
  k.linear_backward = linear_backward<T>;
}
template void fill_linear(KernelTable<float>&);
template void fill_linear(KernelTable<double>&);

}  // namespace copylab::cpu
