// Backbone: what turns tokens into hidden states, below any head.
#pragma once

#include <memory>

#include "core/nn/model_input.h"
#include "core/nn/parameters.h"
#include "core/settings.h"
#include "core/tape.h"

namespace copylab::nn {

class Backbone {
 public:
  virtual ~Backbone() = default;

  // Final hidden states (B·T, D) of the batch's tokens (B, T). A backbone with a state of its own takes it
  // from in.carry, if there is one, and leaves there that after in.advance positions.
  virtual Tensor hidden(Tape& tape, const ModelInput& in) const = 0;
  virtual const Tensor& embedding() const = 0;  // (vocab + extra rows, D)
  virtual int64_t dim() const = 0;              // D
  // How weights of the head start, too; its standard deviation.
  virtual Init init() const = 0;
  virtual double init_std() const = 0;
  // Carries a state that stands for all of the past: reading position by position says what one pass says.
  virtual bool recurrent() const { return false; }
  // Rate of the dropout between the final hidden states and the head, one mask for all positions of a
  // sequence.
  virtual double output_dropout() const { return 0; }
  // The share of positions that hold a meta-token, for the counts below; 0 until told.
  virtual void expect_meta(double share) { (void)share; }
  // Floating-point operations of one token, forward, averaged over a sequence of `length`.
  virtual double flops_per_token(int64_t length) const = 0;
  // Numbers that a forward pass keeps of each position for the backward pass, embedding and final states
  // included.
  virtual double activations_per_token() const = 0;
  // Numbers cached for one sequence of `length` tokens when generating.
  virtual int64_t cache_numbers(int64_t length) const = 0;
};

// A line of the registry (core/nn/backbones.cpp), chosen by model.kind.
struct BackboneEntry {
  const char* name;
  const char* doc;
  std::vector<Field> (*fields)();  // "model.…"
  // Declares parameters; `rows` of the embedding.
  std::unique_ptr<Backbone> (*make)(Parameters& parameters, const Settings& settings, int64_t rows,
                                    int64_t max_length);
};

const std::vector<BackboneEntry>& backbone_registry();
const BackboneEntry& find_backbone(const std::string& name);

}  // namespace copylab::nn
