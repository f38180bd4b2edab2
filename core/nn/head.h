// Head: the output layer of a language model: hidden states in, log-probabilities of the targets out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/nn/model_input.h"
#include "core/nn/parameters.h"
#include "core/settings.h"

namespace copylab::nn {

// What a head reads: the batch, and what Model::forward adds to it. A pointer looks at keys: the T positions
// of the batch and, before them, the M of a stream's memory (Head::memory), row t standing at key M + t.
struct HeadInput : ModelInput {
  Tensor h;                          // (B·T, D) final hidden states
  Tensor keys;                       // (B·(M+T), D) those of all keys; h itself where M is 0
  Tensor key_tokens;                 // (B, M+T) int32 what was read there; -1: before the stream's start
  int64_t memory = 0;                // M
  std::vector<int32_t> rows;         // labelled positions, ascending, in 0..B·T-1
  std::vector<int32_t> row_targets;  // their targets
};

// One number per labelled position, in the order of HeadInput::rows (M of them). The three inference modes of
// the copy heads come from one pass:
//   natural     the trained mixture
//   no_copy     the LM head alone, renormalised over the vocabulary
//   force_copy  the pointer alone, renormalised over the positions (no gate, no sink); the loss is infinite
//               where the target is nowhere in the context
// A head without a pointer leaves the outputs marked "pointer" undefined. With one, whatever the head,
//   p(v) = P~(v)·(1 - gate·(1 - sink)) + gate·pi(v),
// P~ the LM head over the vocabulary, pi(v) the pointer's mass on positions with token v (all of it sums to
// 1 - sink). gate·(1 - sink) is the share that is copied. A pointer without a gate of its own has gate 1.
struct HeadOutput {
  Tensor nll;          // (M) natural -log p(target), differentiable
  Tensor aux;          // (M) auxiliary loss, differentiable, or undefined: training minimises nll + aux
  Tensor lm_nll;       // (M) no_copy
  Tensor copy_nll;     // (M) force_copy (pointer)
  Tensor gate;         // (M) alpha, the share offered to the pointer (pointer)
  Tensor sink;         // (M) a_sink, the weight of the sink (pointer)
  Tensor log_copy;     // (M) log of the pointer's mass on the target, not renormalised (pointer)
  Tensor argmax;       // (M) int32 most probable token, natural; if asked for
  Tensor lm_argmax;    // (M) int32 likewise, no_copy
  Tensor copy_argmax;  // (M) int32 likewise, force_copy (pointer); -1 where there is no position to point at
};

// nll + aux (M): what training minimises. Losses that are reported are nll alone.
Tensor training_loss(Tape& tape, const HeadOutput& out);

class Head {
 public:
  virtual ~Head() = default;
  virtual HeadOutput forward(Tape& tape, const HeadInput& in) const = 0;
  // Floating-point operations of one position, forward, averaged over a sequence of `length`.
  virtual double flops_per_token(int64_t length) const = 0;
  // Numbers kept per past token for generation (the copy key), 0 for a head without memory.
  virtual int64_t cache_per_token() const { return 0; }
  // Numbers that a forward pass keeps of each position for the backward pass, besides the labelled rows,
  // where a pointer looks at `keys` keys a position: more than 1 with a stream's memory.
  virtual double activations_per_token(double keys) const {
    (void)keys;
    return 0;
  }
  // Numbers that it keeps of each position of a sequence of `length` only where want_argmax is set.
  virtual double decision_per_token(int64_t length) const {
    (void)length;
    return 0;
  }
  // Positions before a batch that the head points back at where a stream carries their states on: window - 1.
  // 0 for a head without a window, which sees what is in the batch.
  virtual int64_t memory() const { return 0; }
};

// What a head may know of the model around it.
struct HeadContext {
  Parameters& parameters;
  int64_t vocab;
  int64_t dim;
  Init init;        // how matrices start
  double init_std;  // and their standard deviation
  bool tied;
  const Tensor* embedding;  // (vocab + extra_rows, D) when tied: the head shares it
};

// A line of the registry (core/nn/heads/registry.cpp).
struct HeadEntry {
  const char* name;
  const char* doc;
  std::vector<Field> (*fields)();          // "head.…" fields besides head.kind
  int64_t (*extra_rows)(const Settings&);  // rows of the output matrix beyond the vocabulary
  std::unique_ptr<Head> (*make)(const HeadContext&, const Settings&);
};

const std::vector<HeadEntry>& head_registry();
const HeadEntry& find_head(const std::string& name);

}  // namespace copylab::nn
