// LSTM layer: per step one recurrent product for all sequences, and one pass that applies all gates.
#pragma once

#include "core/cuda/kernels/philox.h"
#include "core/cuda/kernels/product.h"
#include "core/kernels.h"

namespace copylab::cuda {

// The share of its old value that unit j of state s (0 = h, 1 = c) keeps at a row b·T + t.
struct Zone {
  double rate[2];
  bool training;
  uint32_t threshold[2];
  uint64_t key, step;

  explicit Zone(const Zoneout& z)
      : rate{z.h, z.c},
        training(z.training),
        threshold{random_threshold(z.h), random_threshold(z.c)},
        key(z.key),
        step(z.step) {}
};
template <class T>
CL_DEVICE T zone_share(const Zone& z, int64_t hidden, int64_t row, int state, int64_t j) {
  if (!z.training || z.rate[state] == 0) return static_cast<T>(z.rate[state]);
  const int64_t block = (2 * row + state) * ((hidden + 3) / 4) + j / 4;
  return random_block(z.key, z.step, block)[j % 4] < z.threshold[state] ? T(1) : T(0);
}

// State j of sequence b before step t.
template <class T>
CL_DEVICE T state_before(const LstmArgs<T>& a, const T* first, const T* states, int64_t b, int64_t t,
                         int64_t j) {
  return t == 0 ? first[b * a.hidden + j] : states[(b * a.length + t - 1) * a.hidden + j];
}

// Step t: gates hold x·W_ihᵀ + h·W_hhᵀ + b, and get their non-linearities; then c and h.
template <class T>
void lstm_step(const LstmArgs<T>& args, int64_t t) {
  const LstmArgs<T> a = args;
  const Zone zone(a.zoneout);
  const int64_t H = a.hidden;
  map(
      a.batch * H, CL_LAMBDA(int64_t n) {
        const int64_t b = n / H, j = n % H, row = b * a.length + t;
        T* gates = a.gates + row * 4 * H + j;
        const T i = sigmoid(gates[0]), f = sigmoid(gates[H]), g = std::tanh(gates[2 * H]),
                o = sigmoid(gates[3 * H]);
        gates[0] = i;
        gates[H] = f;
        gates[2 * H] = g;
        gates[3 * H] = o;
        const T c_before = state_before(a, a.c0, a.c, b, t, j), moved = f * c_before + i * g;
        const T keep_h = zone_share<T>(zone, H, row, 0, j), keep_c = zone_share<T>(zone, H, row, 1, j);
        const T h_before = keep_h == 0 ? T(0) : state_before(a, a.h0, a.h, b, t, j);
        const T h = keep_h * h_before + (T(1) - keep_h) * (o * std::tanh(moved));
        const T c = keep_c * c_before + (T(1) - keep_c) * moved;
        a.h[row * H + j] = h;
        a.c[row * H + j] = c;
        if (t + 1 < a.length) return;
        a.h_last[n] = h;
        a.c_last[n] = c;
      });
}

template <class T>
void lstm(const LstmArgs<T>& args) {
  const LstmArgs<T> a = args;
  const int64_t H = a.hidden, width = 4 * H;
  map(
      a.batch * a.length * width,
      CL_LAMBDA(int64_t i) { a.gates[i] = a.x_gates[i] + (a.bias ? a.bias[i % width] : T(0)); });
  for (int64_t t = 0; t < a.length; ++t) {
    const Matrix<T> before = t == 0 ? Matrix<T>{a.h0, H} : Matrix<T>{a.h + (t - 1) * H, a.length * H};
    multiply<T>({.m = a.batch,
                 .n = width,
                 .k = H,
                 .a = before,
                 .b = {a.w_hh, H, true},
                 .c = a.gates + t * width,
                 .c_row = a.length * width,
                 .add = true});
    lstm_step(a, t);
  }
}

// What later steps send back, and the gradients of the gates.
template <class T>
struct LstmBackward {
  T* dh;      // (B, H)
  T* dc;      // (B, H)
  T* dgates;  // (B, T, 4H)
};

// Step t backward: dgates from dh and dc, which become, but for the recurrent product, those of the step
// before.
template <class T>
void lstm_step_backward(const LstmArgs<T>& args, const LstmGrads<T>& grads, const LstmBackward<T>& back,
                        int64_t t) {
  const LstmArgs<T> a = args;
  const LstmGrads<T> g = grads;
  const LstmBackward<T> w = back;
  const Zone zone(a.zoneout);
  const int64_t H = a.hidden;
  map(
      a.batch * H, CL_LAMBDA(int64_t n) {
        const int64_t b = n / H, j = n % H, row = b * a.length + t, at = row * 4 * H + j;
        const T i = a.gates[at], f = a.gates[at + H], cell = a.gates[at + 2 * H], o = a.gates[at + 3 * H];
        const T c_before = state_before(a, a.c0, a.c, b, t, j), squashed = std::tanh(f * c_before + i * cell);
        const T keep_h = zone_share<T>(zone, H, row, 0, j), keep_c = zone_share<T>(zone, H, row, 1, j);
        const T dh = w.dh[n] + (g.dh ? g.dh[row * H + j] : T(0)), dc = w.dc[n];
        const T out = (T(1) - keep_h) * dh;
        const T moved = (T(1) - keep_c) * dc + out * o * (T(1) - squashed * squashed);
        const T d[4] = {moved * cell * i * (T(1) - i), moved * c_before * f * (T(1) - f),
                        moved * i * (T(1) - cell * cell), out * squashed * o * (T(1) - o)};
        for (int gate = 0; gate < 4; ++gate) {
          w.dgates[at + gate * H] = d[gate];
          if (g.dx_gates) g.dx_gates[at + gate * H] += d[gate];
        }
        w.dh[n] = keep_h * dh;
        w.dc[n] = keep_c * dc + moved * f;
      });
}

template <class T>
void lstm_backward(const LstmArgs<T>& args, const LstmGrads<T>& grads) {
  const LstmArgs<T> a = args;
  const LstmGrads<T> g = grads;
  const int64_t H = a.hidden, width = 4 * H, states = a.batch * H, rows = a.batch * a.length;
  Workspace workspace;
  const LstmBackward<T> back{workspace.take<T>(states), workspace.take<T>(states),
                             workspace.take<T>(rows * width)};
  map(
      states, CL_LAMBDA(int64_t n) {
        back.dh[n] = g.dh_last ? g.dh_last[n] : T(0);
        back.dc[n] = g.dc_last ? g.dc_last[n] : T(0);
      });
  for (int64_t t = a.length - 1; t >= 0; --t) {
    lstm_step_backward(a, g, back, t);
    multiply<T>({.m = a.batch,
                 .n = H,
                 .k = width,
                 .a = {back.dgates + t * width, a.length * width},
                 .b = {a.w_hh, H},
                 .c = back.dh,
                 .c_row = H,
                 .add = true});
  }
  map(
      states, CL_LAMBDA(int64_t n) {
        if (g.dh0) g.dh0[n] += back.dh[n];
        if (g.dc0) g.dc0[n] += back.dc[n];
      });
  if (g.dbias)
    sum_rows(
        rows, width, g.dbias, CL_LAMBDA(int64_t i, int64_t j) { return back.dgates[i * width + j]; });
  if (!g.dw_hh) return;
  T* before = workspace.take<T>(rows * H);  // (B, T, H): h of the step before
  map(
      rows * H, CL_LAMBDA(int64_t i) {
        before[i] = state_before(a, a.h0, a.h, i / H / a.length, i / H % a.length, i % H);
      });
  multiply<T>({.m = width,
               .n = H,
               .k = rows,
               .a = {back.dgates, width, true},
               .b = {before, H},
               .c = g.dw_hh,
               .c_row = H,
               .add = true});
}

template <class T>
void fill_lstm(KernelTable<T>& k) {
  k.lstm = lstm<T>;
  k.lstm_backward = lstm_backward<T>;
}

}  // namespace copylab::cuda
