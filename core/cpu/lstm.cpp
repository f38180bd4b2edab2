// LSTM layer on the CPU: a block of sequences walks through time on its own, so that no step waits for
// another block; one pass applies all gates.
#include <algorithm>
#include <type_traits>

#include "core/cpu/activations.h"
#include "core/cpu/gemm.h"
#include "core/cpu/kernels.h"
#include "core/cpu/parallel.h"
#include "core/cpu/scratch.h"
#include "core/cpu/simd.h"
#include "core/random.h"

namespace copylab::cpu {
namespace {

constexpr int64_t kSequences = gemm::kRows;  // at most, of one task: what one register tile covers

template <class T>
using Vec = simd::Vec<T>;

// Buffers, by tag of scratch().
struct PackedWeight;
struct GateGradients;
struct PreviousHidden;
struct Carried;
struct Zones;

template <class T>
const T* pack_weight(gemm::View<T> w, int64_t depth, int64_t columns) {
  T* packed = scratch<PackedWeight, T>(gemm::packed_size<T>(depth, columns));
  parallel_for(gemm::ceil_div(columns, gemm::kColumns<T>), depth * columns,
               [&](int64_t panel) { gemm::pack_panel(w, depth, columns, panel, packed); });
  return packed;
}

// f(begin, end) for blocks of at most kSequences sequences: nearly equal ones, and an even number of them, so
// that two processors finish together.
template <class T, class F>
void for_blocks(const LstmArgs<T>& a, F&& f) {
  const int64_t blocks = std::min(a.batch, 2 * gemm::ceil_div(a.batch, 2 * kSequences));
  parallel_for(blocks, a.batch * a.length * a.hidden * a.hidden / 4, [&](int64_t block) {
    f(gemm::tile_begin(a.batch, blocks, block), gemm::tile_begin(a.batch, blocks, block + 1));
  });
}

// Shares of their old values that the units of a row keep: (H) for h, then for c.
template <class T>
void draw_zones(const LstmArgs<T>& a, int64_t row, T* zones) {
  const Zoneout& z = a.zoneout;
  const int64_t H = a.hidden, blocks = gemm::ceil_div(H, 4);
  const Random random = Random::from_key(z.key, z.step);
  for (int64_t state = 0; state < 2; ++state, zones += H) {
    const double rate = state == 0 ? z.h : z.c;
    if (!z.training || rate == 0) {
      std::fill(zones, zones + H, static_cast<T>(rate));
      continue;
    }
    const auto threshold = static_cast<uint32_t>(rate * 0x1.0p32);  // a word below keeps the old value
    for (int64_t j = 0; j < H; j += 4) {
      const auto words = random.block(static_cast<uint64_t>((2 * row + state) * blocks + j / 4));
      for (int64_t i = j; i < std::min(H, j + 4); ++i) zones[i] = words[i - j] < threshold ? T(1) : T(0);
    }
  }
}

// f(std::true_type or std::false_type): is there zoneout.
template <class T, class F>
void with_zoneout(const LstmArgs<T>& a, F&& f) {
  if (a.zoneout.h > 0 || a.zoneout.c > 0)
    f(std::true_type());
  else
    f(std::false_type());
}

// State before step t of sequence b, and the distance to that of sequence b + 1.
template <class T>
gemm::View<T> previous(const T* first, const T* states, const LstmArgs<T>& a, int64_t b, int64_t t) {
  if (t == 0) return {first + b * a.hidden, a.hidden, 1};
  return {states + (b * a.length + t - 1) * a.hidden, a.length * a.hidden, 1};
}

// In place: gates (4H) get their non-linearities; then c = f·c_before + i·g and h = o·tanh(c), of which
// `zones` (2, H) hold back a share.
template <bool kZone, class T>
void apply_gates(int64_t hidden, T* gates, const T* h_before, const T* c_before, const T* zones, T* c, T* h) {
  for (int64_t j = 0; j < hidden; j += simd::kLanes<T>) {
    const int64_t n = std::min<int64_t>(simd::kLanes<T>, hidden - j);
    T *pi = gates + j, *pf = pi + hidden, *pg = pf + hidden, *po = pg + hidden;
    const Vec<T> i = simd::sigmoid<T>(simd::load_partial(pi, n));
    const Vec<T> f = simd::sigmoid<T>(simd::load_partial(pf, n));
    const Vec<T> g = simd::tanh<T>(simd::load_partial(pg, n));
    const Vec<T> o = simd::sigmoid<T>(simd::load_partial(po, n));
    const Vec<T> old = simd::load_partial(c_before + j, n);
    Vec<T> cell = f * old + i * g;
    Vec<T> out = o * simd::tanh<T>(cell);
    simd::store_partial(pi, i, n);
    simd::store_partial(pf, f, n);
    simd::store_partial(pg, g, n);
    simd::store_partial(po, o, n);
    if constexpr (kZone) {
      const Vec<T> keep_h = simd::load_partial(zones + j, n);
      const Vec<T> keep_c = simd::load_partial(zones + hidden + j, n);
      out = keep_h * simd::load_partial(h_before + j, n) + (T(1) - keep_h) * out;
      cell = keep_c * old + (T(1) - keep_c) * cell;
    }
    simd::store_partial(c + j, cell, n);
    simd::store_partial(h + j, out, n);
  }
}

template <class T>
void lstm(const LstmArgs<T>& a) {
  const int64_t H = a.hidden, width = 4 * H;
  const T* packed = pack_weight<T>({a.w_hh, 1, H}, H, width);  // W_hhᵀ
  with_zoneout(a, [&](auto zone) {
    for_blocks(a, [&](int64_t begin, int64_t end) {
      T* zones = zone ? scratch<Zones, T>(2 * H) : nullptr;
      for (int64_t t = 0; t < a.length; ++t) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t at = (b * a.length + t) * width;
          for (int64_t j = 0; j < width; ++j)
            a.gates[at + j] = a.x_gates[at + j] + (a.bias ? a.bias[j] : T(0));
        }
        gemm::multiply_packed(end - begin, width, H, previous(a.h0, a.h, a, begin, t), packed,
                              H * gemm::kColumns<T>, a.gates + (begin * a.length + t) * width,
                              a.length * width, true);
        for (int64_t b = begin; b < end; ++b) {
          const int64_t at = b * a.length + t;
          if (zone) draw_zones(a, at, zones);
          apply_gates<zone>(H, a.gates + at * width, previous(a.h0, a.h, a, b, t).data,
                            previous(a.c0, a.c, a, b, t).data, zones, a.c + at * H, a.h + at * H);
        }
      }
      for (int64_t b = begin; b < end; ++b) {
        const int64_t last = (b * a.length + a.length - 1) * H;
        std::copy(a.h + last, a.h + last + H, a.h_last + b * H);
        std::copy(a.c + last, a.c + last + H, a.c_last + b * H);
      }
    });
  });
}

// dgates (4H) from the gradients of h and c of one step; dc (H) becomes that of the cell before, and with
// zoneout dh (H) the part of the gradient that went past the step.
template <bool kZone, class T>
void gate_gradients(int64_t hidden, const T* gates, const T* c_before, const T* c, const T* zones, T* dh,
                    T* dc, T* dgates) {
  for (int64_t j = 0; j < hidden; j += simd::kLanes<T>) {
    const int64_t n = std::min<int64_t>(simd::kLanes<T>, hidden - j);
    const auto gate = [&](int64_t which) { return simd::load_partial(gates + which * hidden + j, n); };
    const Vec<T> i = gate(0), f = gate(1), g = gate(2), o = gate(3);
    const Vec<T> old = simd::load_partial(c_before + j, n);
    Vec<T> out = simd::load_partial(dh + j, n), later = simd::load_partial(dc + j, n), past{}, moved;
    if constexpr (kZone) {
      const Vec<T> keep_h = simd::load_partial(zones + j, n);
      const Vec<T> keep_c = simd::load_partial(zones + hidden + j, n);
      simd::store_partial(dh + j, keep_h * out, n);
      past = keep_c * later;
      out = (T(1) - keep_h) * out;
      later = (T(1) - keep_c) * later;
      moved = f * old + i * g;
    } else {
      moved = simd::load_partial(c + j, n);
    }
    const Vec<T> squashed = simd::tanh<T>(moved);
    const Vec<T> cell = later + out * o * (T(1) - squashed * squashed);
    const auto put = [&](int64_t which, Vec<T> d) { simd::store_partial(dgates + which * hidden + j, d, n); };
    put(0, cell * g * i * (T(1) - i));
    put(1, cell * old * f * (T(1) - f));
    put(2, cell * i * (T(1) - g * g));
    put(3, out * squashed * o * (T(1) - o));
    simd::store_partial(dc + j, kZone ? past + cell * f : cell * f, n);
  }
}

template <class T>
void add(const T* from, int64_t n, T* to) {
  for (int64_t j = 0; j < n; ++j) to[j] += from[j];
}

template <class T>
void lstm_backward(const LstmArgs<T>& a, const LstmGrads<T>& g) {
  const int64_t H = a.hidden, width = 4 * H, rows = a.batch * a.length;
  const T* packed = pack_weight<T>({a.w_hh, H, 1}, width, H);
  T* dgates = scratch<GateGradients, T>(rows * width);  // (B, T, 4H)
  with_zoneout(a, [&](auto zone) {
    for_blocks(a, [&](int64_t begin, int64_t end) {
      const int64_t n = (end - begin) * H;
      T* zones = zone ? scratch<Zones, T>(2 * H) : nullptr;
      T* dh = scratch<Carried, T>(2 * kSequences * H);  // (sequences, H): what later steps send back
      T* dc = dh + kSequences * H;                      // (sequences, H)
      std::fill(dh, dh + n, T(0));
      std::fill(dc, dc + n, T(0));
      if (g.dh_last) std::copy(g.dh_last + begin * H, g.dh_last + begin * H + n, dh);
      if (g.dc_last) std::copy(g.dc_last + begin * H, g.dc_last + begin * H + n, dc);
      for (int64_t t = a.length - 1; t >= 0; --t) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t at = b * a.length + t;
          T* dh_row = dh + (b - begin) * H;
          if (g.dh) add(g.dh + at * H, H, dh_row);
          if (zone) draw_zones(a, at, zones);
          gate_gradients<zone>(H, a.gates + at * width, previous(a.c0, a.c, a, b, t).data, a.c + at * H,
                               zones, dh_row, dc + (b - begin) * H, dgates + at * width);
          if (g.dx_gates) add(dgates + at * width, width, g.dx_gates + at * width);
        }
        gemm::multiply_packed<T>(end - begin, H, width,
                                 {dgates + (begin * a.length + t) * width, a.length * width, 1}, packed,
                                 width * gemm::kColumns<T>, dh, H, zone);
      }
      if (g.dh0) add(dh, n, g.dh0 + begin * H);
      if (g.dc0) add(dc, n, g.dc0 + begin * H);
    });
  });

  if (g.dbias) {
    constexpr int64_t kColumns = 64;
    parallel_for(gemm::ceil_div(width, kColumns), rows * width, [&](int64_t task) {
      const int64_t first = task * kColumns, n = std::min(kColumns, width - first);
      for (int64_t row = 0; row < rows; ++row) add(dgates + row * width + first, n, g.dbias + first);
    });
  }
  if (g.dw_hh) {
    T* before = scratch<PreviousHidden, T>(rows * H);  // (B, T, H): h of the step before
    parallel_for(a.batch, rows * H, [&](int64_t b) {
      std::copy(a.h0 + b * H, a.h0 + (b + 1) * H, before + b * a.length * H);
      const T* h = a.h + b * a.length * H;
      std::copy(h, h + (a.length - 1) * H, before + (b * a.length + 1) * H);
    });
    gemm::multiply<T>(width, H, rows, {dgates, 1, width}, {before, H, 1}, g.dw_hh, H, true);
  }
}

}  // namespace

template <class T>
void fill_lstm(KernelTable<T>& k) {
  k.lstm = lstm<T>;
  k.lstm_backward = lstm_backward<T>;
}
template void fill_lstm(KernelTable<float>&);
template void fill_lstm(KernelTable<double>&);

}  // namespace copylab::cpu
