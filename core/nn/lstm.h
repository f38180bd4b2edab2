// Lstm: layers of long short-term memory with locked dropout and zoneout, whose states a stream carries on.
#pragma once

#include "core/nn/backbone.h"
#include "core/ops/lstm.h"

namespace copylab::nn {

BackboneEntry lstm_backbone();

struct LstmOptions {
  int64_t dim;  // H: width of embedding and of every layer, so that the output matrix can be the embedding
  int64_t layers;
  double init_range;  // all weights start uniform in ± this
  double dropout;     // locked: one mask per sequence and layer, on embeddings, between layers, on the output
  ops::ZoneoutRates zoneout;
};

// Reads "model.…".
LstmOptions lstm_options(const Settings& settings);

// The language model of Zaremba et al. 2014 with the dropout of Gal and Ghahramani 2016 and zoneout (papers:
// PSM §3.3): no norm behind the last layer. Gradients reach back to the batch's first position.
class Lstm : public Backbone {
 public:
  // Declares embed.weight (embedding_rows, D) and lstm.{i}.w_ih, w_hh (4D, D), b_ih, b_hh (4D).
  Lstm(Parameters& parameters, const LstmOptions& options, int64_t embedding_rows);

  Tensor hidden(Tape& tape, const ModelInput& in) const override;
  const Tensor& embedding() const override { return *embed_; }
  int64_t dim() const override { return options_.dim; }
  Init init() const override { return Init::uniform(options_.init_range); }
  double init_std() const override;
  bool recurrent() const override { return true; }
  double output_dropout() const override { return options_.dropout; }
  double flops_per_token(int64_t length) const override;
  double activations_per_token() const override;
  int64_t cache_numbers(int64_t length) const override;

 private:
  struct Layer {
    const Tensor *w_ih, *w_hh, *b_ih, *b_hh;
  };
  LstmOptions options_;
  const Tensor* embed_;
  std::vector<Layer> layers_;
};

}  // namespace copylab::nn
