// The output head on the CPU: log-sum-exp of h·Wᵀ over the vocabulary, forward and backward, in tiles.
//
// The vocabulary is cut into slabs; a slab is one task. It walks its rows of W in tiles and computes logits
// transposed, (vocabulary, rows of h): then maxima, sums and exponentials run down a tile with one row of h
// per lane, and all three matrix products find their operands in place. In the backward pass a slab owns its
// rows of dW, and has a partial dh of its own; partials are joined in slab order. Rows of h are taken in
// blocks, so that the scratch memory is bounded whatever N, V and D are.
#include <cmath>
#include <limits>

#include "core/cpu/gemm.h"
#include "core/cpu/kernels.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kMaxSlabs = 40;
constexpr int64_t kTileVocab = 96;           // rows of W in one tile
constexpr int64_t kTileRows = 256;           // rows of h in one tile
constexpr int64_t kMaxBlockRows = 512;       // rows of h in one block …
constexpr int64_t kMaxBlockSize = 96 << 10;  // … and its elements: a slab's partial dh

template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

constexpr int64_t round_up(int64_t a, int64_t b) {
  return gemm::ceil_div(a, b) * b;
}

// How a shape is cut.
template <class T>
struct Plan {
  int64_t slab_vocab, slabs;   // columns of the vocabulary in a slab
  int64_t block_rows, blocks;  // rows of h in a block

  explicit Plan(const LmHeadArgs<T>& a) {
    slab_vocab = round_up(std::max<int64_t>(1, gemm::ceil_div(a.vocab, kMaxSlabs)), kTileVocab);
    slabs = std::max<int64_t>(1, gemm::ceil_div(a.vocab, slab_vocab));
    constexpr int64_t kStep = gemm::kColumns<T>;
    const int64_t limit = std::clamp<int64_t>(kMaxBlockSize / std::max<int64_t>(1, a.dim) / kStep * kStep,
                                              2 * kStep, kMaxBlockRows);
    blocks = gemm::ceil_div(a.rows, limit);
    block_rows = blocks ? round_up(gemm::ceil_div(a.rows, blocks), kStep) : 0;
    blocks = blocks ? gemm::ceil_div(a.rows, block_rows) : 0;
  }
};

struct TransposedH;
struct PackedH;
struct PackedW;
struct TileOfLogits;
struct SlabStatistics;
struct SlabArgmax;
struct SlabGradient;
struct RowShift;
struct RowScale;

constexpr int64_t kTileStride = kTileRows + 16;  // not a power of two: columns of a tile share no cache set

// hᵀ of `rows` rows from `h`, as panels of gemm::kColumns rows.
template <class T>
T* pack_transposed(const T* h, int64_t rows, int64_t dim) {
  T* packed = scratch<TransposedH, T>(gemm::packed_size<T>(dim, rows));
  parallel_for(gemm::ceil_div(rows, gemm::kColumns<T>), rows * dim, [&](int64_t p) {
    gemm::pack_panel<T>({h, 1, dim}, dim, rows, p, packed);
  });
  return packed;
}

// f(v, vocab, r, rows, tile) for each tile of logits of slab [v0, v1): tile[i][j] is the logit of column
// v + i for row r + j of the block; `rows` is padded to whole vectors, the padding being rows of zeros.
template <class T, class F>
void for_tiles(const LmHeadArgs<T>& a, const T* h_transposed, int64_t block_rows, int64_t v0, int64_t v1,
               F&& f) {
  T* tile = scratch<TileOfLogits, T>(kTileVocab * kTileStride);
  for (int64_t v = v0; v < v1; v += kTileVocab) {
    const int64_t vocab = std::min(kTileVocab, v1 - v);
    for (int64_t r = 0; r < block_rows; r += kTileRows) {
      const int64_t rows = std::min(kTileRows, round_up(block_rows - r, simd::kLanes<T>));
      gemm::multiply_packed<T>(vocab, rows, a.dim, {a.w + v * a.dim, a.dim, 1}, h_transposed + r * a.dim,
                               a.dim * gemm::kColumns<T>, tile, kTileStride, false);
      f(v, vocab, r, rows, tile);
    }
  }
}

// Statistics of a slab's logits for each row of a block.
template <class T>
struct Statistics {
  T* max;
  T* sum;           // of exp(logit - max)
  int32_t* argmax;  // smallest index among the largest, -1 if there is none
};

// Brings the statistics of one vector of rows up to date with a column of `vocab` vectors of logits.
template <class T>
void accumulate(const T* tile, int64_t v, int64_t vocab, Statistics<T> s) {
  using V = simd::Vec<T>;
  constexpr int kLanes = simd::kLanes<T>;
  V tile_max = simd::load(tile);
  for (int64_t i = 1; i < vocab; ++i) tile_max = simd::max(simd::load(tile + i * kTileStride), tile_max);
  const V old_max = simd::load(s.max);
  const auto better = tile_max > old_max;
  const V max = better ? tile_max : old_max;
  bool any = false;
  for (int j = 0; j < kLanes; ++j) any |= better[j] != 0;
  if (any) {
    simd::IntVec<T> index{};
    for (int64_t i = vocab - 1; i >= 0; --i) {  // downwards, so that the smallest index stays
      const auto equal = simd::load(tile + i * kTileStride) == tile_max;
      index = equal ? simd::IntVec<T>{} + static_cast<int32_t>(i) : index;
    }
    for (int j = 0; j < kLanes; ++j) {
      if (better[j]) s.argmax[j] = static_cast<int32_t>(v + index[j]);
    }
  }
  const V from = max == simd::broadcast(kMinusInf<T>) ? V{} : max;  // -inf - -inf would be NaN
  V sum = simd::load(s.sum) * simd::exp(old_max - from);
  for (int64_t i = 0; i < vocab; ++i) sum += simd::exp(simd::load(tile + i * kTileStride) - from);
  simd::store(s.max, max);
  simd::store(s.sum, sum);
}

// Logits at the chosen columns, from `shift`. Each is summed in the order of the tiles, so that it has the
// same rounding as the logit that entered the log-sum-exp, and several at once to hide latency.
template <class T>
void chosen_logits(const LmHeadArgs<T>& a) {
  constexpr int kAtOnce = 8;
  const int64_t n = a.rows * a.columns, groups = gemm::ceil_div(n, kAtOnce);
  constexpr int64_t kGroups = 16;
  parallel_for(gemm::ceil_div(groups, kGroups), n * a.dim, [&](int64_t task) {
    const int64_t end = std::min(n, (task + 1) * kGroups * kAtOnce);
    for (int64_t i = task * kGroups * kAtOnce; i < end; i += kAtOnce) {
      const int count = static_cast<int>(std::min<int64_t>(kAtOnce, end - i));
      const T *h[kAtOnce], *w[kAtOnce];
      T sum[kAtOnce] = {};
      for (int j = 0; j < kAtOnce; ++j) {
        const int64_t at = i + std::min(j, count - 1);
        h[j] = a.h + at / a.columns * a.dim;
        w[j] = a.w + std::max(a.column_ids[at], 0) * a.dim;
      }
      for (int64_t d = 0; d < a.dim; ++d) {
        for (int j = 0; j < kAtOnce; ++j) sum[j] += w[j][d] * h[j][d];
      }
      for (int j = 0; j < count; ++j) {
        a.logits[i + j] = a.column_ids[i + j] < 0 ? T(0) : sum[j] - a.shift[(i + j) / a.columns];
      }
    }
  });
}

template <class T>
void lm_head(const LmHeadArgs<T>& a) {
  using V = simd::Vec<T>;
  constexpr int kLanes = simd::kLanes<T>;
  const Plan<T> plan(a);
  for (int64_t block = 0; block < plan.blocks; ++block) {
    const int64_t n0 = block * plan.block_rows, rows = std::min(plan.block_rows, a.rows - n0);
    const T* h_transposed = pack_transposed(a.h + n0 * a.dim, rows, a.dim);
    T* statistics = scratch<SlabStatistics, T>(2 * plan.slabs * plan.block_rows);
    int32_t* argmax = scratch<SlabArgmax, int32_t>(plan.slabs * plan.block_rows);
    const auto of_slab = [&](int64_t slab) {
      return Statistics<T>{statistics + slab * plan.block_rows,
                           statistics + (plan.slabs + slab) * plan.block_rows,
                           argmax + slab * plan.block_rows};
    };
    parallel_for(plan.slabs, rows * a.vocab * a.dim / 16, [&](int64_t slab) {
      const Statistics<T> s = of_slab(slab);
      std::fill_n(s.max, plan.block_rows, kMinusInf<T>);
      std::fill_n(s.sum, plan.block_rows, T(0));
      std::fill_n(s.argmax, plan.block_rows, -1);
      const int64_t v0 = slab * plan.slab_vocab, v1 = std::min(a.vocab, v0 + plan.slab_vocab);
      for_tiles(a, h_transposed, rows, v0, v1,
                [&](int64_t v, int64_t vocab, int64_t r, int64_t width, T* tile) {
                  for (int64_t i = 0; a.excluded && i < vocab; ++i) {
                    if (a.excluded[v + i]) std::fill_n(tile + i * kTileStride, width, kMinusInf<T>);
                  }
                  for (int64_t j = 0; j < width; j += kLanes) {
                    accumulate(tile + j, v, vocab, {s.max + r + j, s.sum + r + j, s.argmax + r + j});
                  }
                });
    });
    for (int64_t r = 0; r < rows; r += kLanes) {
      V max = simd::load(of_slab(0).max + r);
      for (int64_t slab = 1; slab < plan.slabs; ++slab)
        max = simd::max(simd::load(of_slab(slab).max + r), max);
      const V from = max == simd::broadcast(kMinusInf<T>) ? V{} : max;
      V sum{};
      for (int64_t slab = 0; slab < plan.slabs; ++slab) {
        sum += simd::load(of_slab(slab).sum + r) * simd::exp(simd::load(of_slab(slab).max + r) - from);
      }
      const int64_t count = std::min<int64_t>(kLanes, rows - r);
      simd::store_partial(a.shift + n0 + r, from, count);
      simd::store_partial(a.lse + n0 + r, simd::log(sum), count);
      for (int64_t j = 0; j < count; ++j) {
        int32_t best = -1;
        for (int64_t slab = plan.slabs - 1; slab >= 0; --slab) {
          const Statistics<T> s = of_slab(slab);
          if (s.argmax[r + j] >= 0 && s.max[r + j] == max[j]) best = s.argmax[r + j];
        }
        a.argmax[n0 + r + j] = best;
      }
    }
  }
  chosen_logits(a);
}

// y += scale · x.
template <class T>
void add_scaled(const T* x, T scale, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

template <class T>
void lm_head_backward(const LmHeadArgs<T>& a, const LmHeadGrads<T>& g) {
  using V = simd::Vec<T>;
  constexpr int kLanes = simd::kLanes<T>;
  constexpr int64_t kWidth = gemm::kColumns<T>;
  if (!g.dh && !g.dw) return;
  const Plan<T> plan(a);
  const int64_t padded_dim = round_up(a.dim, kWidth);
  const bool through_lse = g.dlse && a.vocab > 0;
  for (int64_t block = 0; block < plan.blocks; ++block) {
    const int64_t n0 = block * plan.block_rows, rows = std::min(plan.block_rows, a.rows - n0);
    const T* h = a.h + n0 * a.dim;
    const T *h_transposed = nullptr, *h_packed = nullptr;
    T* partial = nullptr;  // (slabs, block_rows, D)
    T* shift = scratch<RowShift, T>(plan.block_rows);
    T* scale = scratch<RowScale, T>(plan.block_rows);  // d loss / d logit = scale · exp(logit - shift)
    if (through_lse) {
      h_transposed = pack_transposed(h, rows, a.dim);
      for (int64_t r = 0; r < plan.block_rows; ++r) {
        const bool used = r < rows && a.lse[n0 + r] != kMinusInf<T>;
        shift[r] = used ? a.shift[n0 + r] : T(0);
        scale[r] = used ? g.dlse[n0 + r] * std::exp(-a.lse[n0 + r]) : T(0);
      }
      if (g.dw) {
        T* to = scratch<PackedH, T>(gemm::packed_size<T>(rows, a.dim));
        parallel_for(padded_dim / kWidth, rows * a.dim, [&](int64_t p) {
          gemm::pack_panel<T>({h, a.dim, 1}, rows, a.dim, p, to);
        });
        h_packed = to;
      }
      if (g.dh) partial = scratch<SlabGradient, T>(plan.slabs * plan.block_rows * a.dim);
    }
    parallel_for(plan.slabs, rows * a.vocab * a.dim / 16, [&](int64_t slab) {
      const int64_t v0 = slab * plan.slab_vocab, v1 = std::min(a.vocab, v0 + plan.slab_vocab);
      if (through_lse) {
        T* w_packed = scratch<PackedW, T>(kTileVocab * padded_dim);
        int64_t packed_of = -1;
        for_tiles(
            a, h_transposed, rows, v0, v1, [&](int64_t v, int64_t vocab, int64_t r, int64_t width, T* tile) {
              for (int64_t i = 0; i < vocab; ++i) {
                T* row = tile + i * kTileStride;
                if (a.excluded && a.excluded[v + i]) {
                  std::fill_n(row, width, T(0));
                  continue;
                }
                for (int64_t j = 0; j < width; j += kLanes) {
                  const V p = simd::exp(simd::load(row + j) - simd::load(shift + r + j));
                  simd::store(row + j, p * simd::load(scale + r + j));
                }
              }
              const int64_t count = std::min(width, rows - r);
              if (g.dw) {
                gemm::multiply_packed<T>(vocab, a.dim, count, {tile, kTileStride, 1}, h_packed + r * kWidth,
                                         rows * kWidth, g.dw + v * a.dim, a.dim, true);
              }
              if (g.dh) {
                if (packed_of != v) {
                  for (int64_t p = 0; p < padded_dim / kWidth; ++p) {
                    gemm::pack_panel<T>({a.w + v * a.dim, a.dim, 1}, vocab, a.dim, p, w_packed);
                  }
                  packed_of = v;
                }
                gemm::multiply_packed<T>(count, a.dim, vocab, {tile, 1, kTileStride}, w_packed,
                                         vocab * kWidth, partial + (slab * plan.block_rows + r) * a.dim,
                                         a.dim, v > v0);
              }
            });
      }
      if (g.dlogits && g.dw) {  // the last slab also takes the rows beyond the vocabulary
        const int64_t end = slab + 1 < plan.slabs ? v1 : a.weight_rows;
        for (int64_t i = n0 * a.columns; i < (n0 + rows) * a.columns; ++i) {
          const int64_t id = a.column_ids[i];
          if (id >= v0 && id < end)
            add_scaled(a.h + i / a.columns * a.dim, g.dlogits[i], g.dw + id * a.dim, a.dim);
        }
      }
    });
    if (!g.dh) continue;
    constexpr int64_t kJoinRows = 16;
    const int64_t join_work = rows * a.dim * (plan.slabs + a.columns);
    parallel_for(gemm::ceil_div(rows, kJoinRows), join_work, [&](int64_t task) {
      const int64_t begin = task * kJoinRows, end = std::min(rows, begin + kJoinRows);
      T* dh = g.dh + n0 * a.dim;
      for (int64_t slab = 0; partial && slab < plan.slabs; ++slab) {
        const T* from = partial + slab * plan.block_rows * a.dim;
        for (int64_t i = begin * a.dim; i < end * a.dim; ++i) dh[i] += from[i];
      }
      for (int64_t i = (n0 + begin) * a.columns; g.dlogits && i < (n0 + end) * a.columns; ++i) {
        const int64_t id = a.column_ids[i];
        if (id >= 0) add_scaled(a.w + id * a.dim, g.dlogits[i], g.dh + i / a.columns * a.dim, a.dim);
      }
    });
  }
}

}  // namespace

template <class T>
void fill_lm_head(KernelTable<T>& k) {
  k.lm_head = lm_head<T>;
  k.lm_head_backward = lm_head_backward<T>;
}
template void fill_lm_head(KernelTable<float>&);
template void fill_lm_head(KernelTable<double>&);

}  // namespace copylab::cpu
