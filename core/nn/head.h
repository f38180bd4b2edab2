// Head: the output layer of a language model: hidden states in, log-probabilities of the targets out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/nn/parameters.h"
#include "core/settings.h"

namespace copylab::nn {

// natural: as trained; no_copy: the LM head alone (renormalised over the vocabulary); force_copy: the pointer
// alone (renormalised over the positions, without gate and sink).
enum class Mode : int { natural, no_copy, force_copy };

struct HeadInput {
  Tensor h;                  // (B·T, D) final normed hidden states
  Tensor tokens;             // (B, T) int32
  Tensor targets;            // (B, T) int32, negative = no label
  Tensor segment;            // (B, T) int32 or undefined
  bool want_argmax = false;  // evaluation: fill `argmax`
  Mode mode = Mode::natural;
};

// Per position; entries of unlabelled positions are 0 (nll) and otherwise unspecified.
struct HeadOutput {
  Tensor nll;     // (B·T) -log p(target), differentiable
  Tensor lm_nll;  // (B·T) of the LM head alone
  Tensor gate;    // (B·T) alpha, the share that is offered to the pointer; undefined for a head without one
  Tensor sink;    // (B·T) weight of the sink; undefined for a head without one
  Tensor log_copy;  // (B·T) log of the pointer's mass on the target, un-normalised; undefined likewise
  Tensor argmax;    // (B·T) int32 most probable token in the asked mode, if asked for
};

class Head {
 public:
  virtual ~Head() = default;
  virtual HeadOutput forward(Tape& tape, const HeadInput& in) const = 0;
  // Multiply-adds of one position, forward, with `length` positions to point at.
  virtual double flops_per_token(int64_t length) const = 0;
  // Numbers kept per past token for generation (the copy key), 0 for a head without memory.
  virtual int64_t cache_per_token() const { return 0; }
};

// What a head may know of the model around it.
struct HeadContext {
  Parameters& parameters;
  int64_t vocab;
  int64_t dim;
  double init_std;
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
