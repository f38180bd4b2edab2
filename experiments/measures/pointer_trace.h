// What a model does with one test sequence: losses in each mode, gate, sink and pointer weights, on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

#include "experiments/measures/head_sample.h"

namespace copylab {

// Arrays are by position, T of them; without a label at t their entries mean nothing. In a stream the first
// positions are those of the pointer's memory, which have no labels; those before the stream's start are of
// token -1 and of a document of their own. A head without a
// pointer leaves gate, sink, log_copy, copy_nll, copy_best and weights empty; one without a sink leaves sink
// empty.
struct PointerTrace {
  std::vector<int32_t> tokens, targets;  // target -1: no label
  std::vector<int32_t> segment;          // document number
  std::vector<double> nll, lm_nll, copy_nll;
  std::vector<int32_t> best, lm_best, copy_best;  // most probable token of each mode
  std::vector<double> gate, sink;                 // alpha, a_sink
  std::vector<double> log_copy;                   // log of the pointer's mass on the target
  Matrix weights;                                 // (T, T): mass of row t on the token at position p
  Matrix h;                                       // (T, D) final hidden states

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  bool has_pointer() const { return !gate.empty(); }
};

// Is a measure's own -log p of a target the model's, which computes in float32?
inline bool agrees(double nll, double of_model) {
  return std::abs(nll - of_model) <= 2e-3 * std::max(1.0, std::abs(nll));
}

// Positions T of every trace: those of the task's sequences, and of the memory of a stream.
int64_t trace_length(const MeasureInput& in, const nn::Model& model);

// f(trace) for test sequences 0..sequences-1, one at a time.
void for_each_trace(const MeasureInput& in, const nn::Model& model, int64_t sequences,
                    const std::function<void(const PointerTrace&)>& f);

// Which keys a pointer may use, as ops::pointer has it: key j of row t stands for the token at j + shift.
struct PointerReach {
  int64_t window = 0;
  int64_t shift = 0;
  bool copy_self = true;
  // The keys of row t, ascending.
  std::vector<int64_t> keys(const PointerTrace& trace, int64_t t) const;
};
// From head.window, head.key_token and head.copy_self; a head without these settings sees all of 0..t.
PointerReach pointer_reach(const Settings& settings);

}  // namespace copylab
