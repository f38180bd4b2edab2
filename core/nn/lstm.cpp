// Lstm: embedding, layers, and the exchange of states with a Carry.
#include "core/nn/lstm.h"

#include <algorithm>
#include <cmath>

#include "core/ops/embedding.h"
#include "core/ops/locked_dropout.h"

namespace copylab::nn {
namespace {

std::vector<Field> fields() {
  return {
      {.path = "model.init_range",
       .fallback = 0.0,
       .doc = "lstm: all weights start uniform in +- this; 0 = 1/sqrt(D), as PyTorch's",
       .min = 0.0,
       .max = 10.0,
       .later = true},
      {.path = "model.zoneout_h",
       .fallback = 0.0,
       .doc = "lstm: probability that a unit of the hidden state keeps its old value",
       .min = 0.0,
       .max = 0.99,
       .later = true},
      {.path = "model.zoneout_c",
       .fallback = 0.0,
       .doc = "lstm: likewise of the cell state",
       .min = 0.0,
       .max = 0.99,
       .later = true},
  };
}

// Layer `layer` of states (L, B, D) on the tape's backend, or nothing.
Tensor state_of(Tape& tape, const Carry* carry, const std::vector<double> Carry::*states, int64_t layer,
                DType dtype) {
  if (!carry || carry->empty()) return {};
  const int64_t size = carry->rows * carry->dim;
  const double* from = (carry->*states).data() + layer * size;
  Tensor out;
  dispatch_float(dtype, "lstm", [&](auto tag) {
    using T = decltype(tag);
    out = tape.constant(std::vector<T>(from, from + size), {carry->rows, carry->dim});
  });
  return out;
}

// Appends position t of x (B, T, D) to `to`.
void append_position(const Backend& backend, const Tensor& x, int64_t t, std::vector<double>& to) {
  dispatch_float(x.dtype(), "lstm", [&](auto tag) {
    const auto host = to_host<decltype(tag)>(backend, x);
    const int64_t length = x.dim(1), dim = x.dim(2);
    for (int64_t b = 0; b < x.dim(0); ++b) {
      const auto row = host.begin() + (b * length + t) * dim;
      to.insert(to.end(), row, row + dim);
    }
  });
}

}  // namespace

LstmOptions lstm_options(const Settings& settings) {
  LstmOptions o{};
  o.dim = settings.integer("model.dim");
  o.layers = settings.integer("model.layers");
  const double range = settings.real("model.init_range");
  o.init_range = range > 0 ? range : 1.0 / std::sqrt(static_cast<double>(o.dim));
  o.dropout = settings.real("model.dropout");
  o.zoneout = {settings.real("model.zoneout_h"), settings.real("model.zoneout_c")};
  return o;
}

BackboneEntry lstm_backbone() {
  return {"lstm", "LSTM layers, which can carry their states from batch to batch of a stream", fields,
          [](Parameters& parameters, const Settings& settings, int64_t rows,
             int64_t) -> std::unique_ptr<Backbone> {
            return std::make_unique<Lstm>(parameters, lstm_options(settings), rows);
          }};
}

Lstm::Lstm(Parameters& parameters, const LstmOptions& options, int64_t embedding_rows) : options_(options) {
  const int64_t dim = options_.dim;
  embed_ = &parameters.add("embed.weight", {embedding_rows, dim}, init(), true);
  for (int64_t i = 0; i < options_.layers; ++i) {
    const auto add = [&](const char* name, Shape shape, bool decay) {
      return &parameters.add(fmt::format("lstm.{}.{}", i, name), shape, init(), decay);
    };
    Layer layer{};
    layer.w_ih = add("w_ih", {4 * dim, dim}, true);
    layer.w_hh = add("w_hh", {4 * dim, dim}, true);
    layer.b_ih = add("b_ih", {4 * dim}, false);
    layer.b_hh = add("b_hh", {4 * dim}, false);
    layers_.push_back(layer);
  }
}

Tensor Lstm::hidden(Tape& tape, const ModelInput& in) const {
  expect(in.tokens.shape().rank() == 2, "lstm", "tokens (B, T) expected: got {}", in.tokens.shape().str());
  const int64_t batch = in.tokens.dim(0), length = in.tokens.dim(1), dim = options_.dim;
  const int64_t advance = in.advance > 0 ? in.advance : length;
  expect(advance <= length, "lstm", "a stream cannot move on by {} of {} positions", advance, length);
  Carry* carry = in.carry;
  expect(!carry || carry->empty() ||
             (carry->rows == batch && carry->dim == dim && carry->layers == options_.layers),
         "lstm", "states of ({}, {}, {}) carried on expected: got ({}, {}, {})", options_.layers, batch, dim,
         carry ? carry->layers : 0, carry ? carry->rows : 0, carry ? carry->dim : 0);

  const auto dropped = [&](const Tensor& x) {
    return ops::locked_dropout(tape, x, options_.dropout, tape.random("dropout"));
  };
  Tensor x = ops::embedding(tape, *embed_, in.tokens).reshape({batch, length, dim});
  std::vector<ops::LstmResult> results;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& l = layers_[i];
    const auto at = static_cast<int64_t>(i);
    const ops::LstmResult r = ops::lstm(tape, dropped(x), *l.w_ih, *l.w_hh, *l.b_ih, *l.b_hh,
                                        state_of(tape, carry, &Carry::h, at, x.dtype()),
                                        state_of(tape, carry, &Carry::c, at, x.dtype()), options_.zoneout);
    results.push_back(r);
    x = r.h;
    tape.probe(fmt::format("lstm.{}.h", i), x);
  }
  if (carry) {
    const Backend& backend = tape.backend();
    tape.when_computed([carry, results, advance, &backend] {
      carry->layers = static_cast<int64_t>(results.size());
      carry->h.clear();
      carry->c.clear();
      for (const ops::LstmResult& r : results) {
        append_position(backend, r.h, advance - 1, carry->h);
        append_position(backend, r.c, advance - 1, carry->c);
      }
    });
  }
  return x.reshape({batch * length, dim});
}

double Lstm::init_std() const {
  return options_.init_range / std::sqrt(3.0);
}

double Lstm::flops_per_token(int64_t) const {
  return static_cast<double>(options_.layers) * 2.0 * 8.0 * static_cast<double>(options_.dim * options_.dim);
}

// Per layer: the product with the input and the hidden states (5 D), gates and cell states, which have no
// gradients and so count half (5 D), and the input dropped out; the embedding, and the output dropped out.
double Lstm::activations_per_token() const {
  const double dim = static_cast<double>(options_.dim), kept = options_.dropout > 0 ? 1 : 0;
  return static_cast<double>(options_.layers) * (7.5 + kept) * dim + (1 + kept) * dim;
}

int64_t Lstm::cache_numbers(int64_t) const {
  return 2 * options_.layers * options_.dim;
}

}  // namespace copylab::nn
