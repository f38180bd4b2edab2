// Model: a backbone and a head, built from settings, with all of their parameters.
#pragma once

#include <memory>

#include "core/nn/head.h"

namespace copylab::nn {

// Settings "model.…".
std::vector<Field> model_fields();
// What each model.preset sets: its name, then paths and values.
std::vector<std::pair<std::string, std::vector<std::pair<std::string, Value>>>> model_presets();

class Backbone;

class Model {
 public:
  // `settings` holds model.* and head.*; `vocab` is the task's. Parameters are declared but not allocated, so
  // that `plan` can count without memory; call allocate() and initialise(seed) before forward().
  Model(const Backend& backend, DType dtype, const Settings& settings, int64_t vocab, int64_t max_length);
  ~Model();

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  void allocate() { parameters_.allocate(); }
  void initialise(uint64_t seed) { parameters_.initialise(seed); }

  // Final hidden states (B·T, D) of the batch's tokens (B, T).
  Tensor hidden(Tape& tape, const ModelInput& in) const;
  // hidden() and the head at the labelled positions. With a carry the batch continues a stream; gradients do
  // not reach what was carried.
  HeadOutput forward(Tape& tape, const ModelInput& in) const;

  const Backbone& backbone() const { return *backbone_; }
  const Head& head() const { return *head_; }
  // With a carry, reading position by position says what one pass over all of them says: a recurrent
  // backbone, and no pointer, or one whose window a carry holds.
  bool carries_context() const;
  int64_t vocab() const { return vocab_; }
  int64_t dim() const;
  // The share of positions that hold a meta-token: what the counts below are for. 0 until told.
  void expect_meta(double share);
  // Multiply-adds times two of one token, forward, at this sequence length; training costs about three times
  // that. In a stream the pointer looks further back than a sequence is long.
  double flops_per_token(int64_t length, bool stream = false) const;
  // Bytes of float32 cache of one sequence of `length` tokens when generating: keys and values of all layers
  // or recurrent states, plus the head's keys, no more than their windows (papers: CPLM §2.2).
  int64_t cache_bytes(int64_t length) const;

 private:
  // Fills in what the head points back at, from final hidden states h (B·T, D), with output dropout.
  void point_back(Tape& tape, const Tensor& h, HeadInput& in) const;

  Parameters parameters_;
  int64_t vocab_;
  std::unique_ptr<Backbone> backbone_;
  std::unique_ptr<Head> head_;
};

}  // namespace copylab::nn
