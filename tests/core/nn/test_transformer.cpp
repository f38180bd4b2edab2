// Transformer: choices of norm, feed-forward and positions, and what an intervention takes away.
#include "core/nn/transformer.h"

#include <map>

#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "core/optim/optimizer.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

constexpr int64_t kBatch = 2, kLength = 6, kVocab = 7, kDim = 12;
const Shape kShape{kBatch, kLength};

Settings settings_of(const std::map<std::string, Value>& changes) {
  Settings s;
  for (const Field& field : nn::model_fields()) s.set(field.path, field.fallback);
  for (const auto& [path, value] : std::map<std::string, Value>{{"model.dim", kDim},
                                                                {"model.layers", int64_t{2}},
                                                                {"model.heads", int64_t{2}},
                                                                {"model.kv_heads", int64_t{2}},
                                                                {"model.init_std", 0.6}})
    s.set(path, value);
  for (const auto& [path, value] : changes) {
    REQUIRE(s.has(path));
    s.set(path, value);
  }
  return s;
}

struct Small {
  nn::Parameters parameters{cpu_backend(), DType::f64};
  nn::Transformer model;
  Tape tape{cpu_backend()};
  std::vector<int32_t> ids = random_ids(kBatch * kLength, "transformer.ids", 0, kVocab);

  explicit Small(const std::map<std::string, Value>& changes, int64_t max_length = kLength)
      : model(parameters, nn::transformer_options(settings_of(changes)), kVocab, max_length) {
    parameters.allocate();
    parameters.initialise(3);
  }
  // Final states; `prepare` may add to the input.
  std::vector<double> hidden(const std::function<void(nn::ModelInput&)>& prepare = {}) {
    tape.begin({.record = false, .training = false});
    nn::ModelInput in;
    in.tokens = tape.constant(ids, kShape);
    if (prepare) prepare(in);
    return to_host<double>(cpu_backend(), model.hidden(tape, in));
  }
  Tensor flags(uint8_t value) { return tape.constant(std::vector<uint8_t>(kShape.size(), value), kShape); }
};

std::map<std::string, Value> positions(const char* kind) {
  return {{"model.positions", std::string(kind)}};
}

std::string options_error(const std::map<std::string, Value>& changes) {
  return error_of([&] { nn::transformer_options(settings_of(changes)); });
}

}  // namespace

TEST_CASE("Transformer: positions that are zeroed everywhere leave a model without positions",
          "[transformer]") {
  const std::vector<double> without = Small(positions("none")).hidden();
  for (const char* kind : {"rope", "learned"}) {
    Small small(positions(kind));
    CHECK(difference(small.hidden(), without) > 1e-2);
    const auto zeroed =
        small.hidden([&](nn::ModelInput& in) { in.intervention.zero_position = small.flags(1); });
    CHECK(difference(zeroed, without) < 1e-14);
    const auto kept =
        small.hidden([&](nn::ModelInput& in) { in.intervention.zero_position = small.flags(0); });
    CHECK(kept == small.hidden());
  }
}

TEST_CASE("Transformer: a position that is zeroed changes rows from it on, and none before",
          "[transformer]") {
  for (const char* kind : {"rope", "learned"}) {
    Small small(positions(kind));
    const int64_t at = 2;
    const auto zero = [&](nn::ModelInput& in) {
      std::vector<uint8_t> flags(kShape.size(), 0);
      flags[at] = 1;  // of sequence 0
      in.intervention.zero_position = small.tape.constant(flags, kShape);
    };
    const std::vector<double> before = small.hidden(), after = small.hidden(zero);
    for (int64_t row = 0; row < kBatch * kLength; ++row) {
      INFO(kind << ", row " << row);
      const bool same = std::equal(before.begin() + row * kDim, before.begin() + (row + 1) * kDim,
                                   after.begin() + row * kDim);
      CHECK(same == (row < at || row >= kLength));
    }
  }
}

TEST_CASE("Transformer: zeroed embeddings leave nothing of the token", "[transformer]") {
  Small small({});
  const auto at = [&](int64_t position) {
    return [&, position](nn::ModelInput& in) {
      std::vector<uint8_t> flags(kShape.size(), 0);
      flags[position] = 1;
      in.intervention.zero_embedding = small.tape.constant(flags, kShape);
    };
  };
  const std::vector<double> before = small.hidden(), zeroed = small.hidden(at(2));
  CHECK(difference(before, zeroed) > 1e-2);
  small.ids[2] = (small.ids[2] + 1) % kVocab;
  CHECK(small.hidden() != before);
  CHECK(small.hidden(at(2)) == zeroed);
}

TEST_CASE("Transformer: a row sees only the columns that it is allowed to", "[transformer]") {
  Small small({{"model.layers", int64_t{1}}});
  std::vector<uint8_t> allowed(kBatch * kLength * kLength, 1);
  const auto mask = [&](nn::ModelInput& in) {
    in.intervention.allowed = small.tape.constant(allowed, {kBatch, kLength, kLength});
  };
  CHECK(small.hidden(mask) == small.hidden());
  allowed[4 * kLength + 1] = 0;  // of sequence 0: row 4, column 1
  const auto row = [](const std::vector<double>& h, int64_t t) {
    return std::vector<double>(h.begin() + t * kDim, h.begin() + (t + 1) * kDim);
  };
  const std::vector<double> before = small.hidden(mask);
  small.ids[1] = (small.ids[1] + 1) % kVocab;
  const std::vector<double> after = small.hidden(mask);
  CHECK(row(before, 4) == row(after, 4));
  for (const int64_t t : {1, 2, 3, 5}) CHECK(row(before, t) != row(after, t));
}

TEST_CASE("Transformer: choices have the parameters of their formula", "[transformer]") {
  const auto count = [](std::map<std::string, Value> changes) { return Small(changes).parameters.count(); };
  const int64_t plain = count({}), relu = 4 * kDim, swiglu = 32;  // 8/3 of 12, rounded up to 32
  CHECK(plain == kVocab * kDim + 2 * (4 * kDim * kDim + 3 * kDim * swiglu + 2 * kDim) + kDim);
  const std::map<std::string, Value> gpt2 = {{"model.norm", std::string("layer")},
                                             {"model.mlp", std::string("relu")},
                                             {"model.bias", true},
                                             {"model.positions", std::string("learned")},
                                             {"model.max_positions", int64_t{20}}};
  // A block: matrices; biases of q, k, v, o, up, down; two LayerNorms.
  const int64_t block = 4 * kDim * kDim + 2 * kDim * relu + 4 * kDim + relu + kDim + 4 * kDim;
  CHECK(count(gpt2) == (kVocab + 20) * kDim + 2 * block + 2 * kDim);
  CHECK(Small(gpt2).model.flops_per_token(kLength) - Small({}).model.flops_per_token(kLength) ==
        2 * 2 * kDim * (2 * relu - 3 * swiglu));
}

TEST_CASE("Transformer: learned positions beyond the training length stay as they start", "[transformer]") {
  auto changes = positions("learned");
  changes["model.max_positions"] = int64_t{2 * kLength};
  Small small(changes);
  const Tensor& table = small.parameters.find("pos_embed.weight").tensor;
  const std::vector<double> before = to_host<double>(cpu_backend(), table);
  optim::OptimizerOptions options;
  options.weight_decay = 0.1;
  optim::Optimizer optimizer(small.parameters, options);
  for (int step = 0; step < 2; ++step) {
    small.tape.begin({});
    nn::ModelInput in;
    in.tokens = small.tape.constant(small.ids, kShape);
    const Tensor h = small.model.hidden(small.tape, in);
    const Input upstream = random_input(h.shape(), "transformer.upstream");
    small.tape.backward(ops::weighted_sum(small.tape, h, small.tape.constant(upstream.values, h.shape())));
    optimizer.step(0.01, 1.0);
  }
  const std::vector<double> after = to_host<double>(cpu_backend(), table);
  for (int64_t i = 0; i < table.size(); ++i) CHECK((before[i] == after[i]) == (i >= kLength * kDim));
}

TEST_CASE("Transformer: what positions cannot do is said", "[transformer]") {
  CHECK(error_of([&] { Small(positions("learned"), kLength - 1).hidden(); }) ==
        "[positions] sequences of at most 5 tokens expected, the model's table of positions "
        "(model.max_positions): got 6");
  auto few = positions("learned");
  few["model.max_positions"] = kLength - 1;
  CHECK(error_of([&] { Small small(few); }) ==
        "[positions] model.max_positions = 5 learned positions are fewer than the 6 of a sequence");
  CHECK(error_of([&] { Small({}, 1).hidden(); }) ==
        "[positions] sequences of at most 4 tokens expected, the model's table of positions "
        "(model.max_positions): got 6");
  CHECK_NOTHROW(Small({{"model.max_positions", kLength}}, 1).hidden());
  CHECK_NOTHROW(Small(positions("none"), 1).hidden());

  CHECK(options_error({{"model.yarn.scale", 4.0}}) ==
        "[transformer] model.yarn.scale = 4 needs model.yarn.original_length, the length trained for");
  auto learned = positions("learned");
  learned["model.yarn.scale"] = 4.0;
  CHECK(options_error(learned) == "[transformer] model.yarn.scale = 4 needs model.positions = rope");
  CHECK(options_error({{"model.yarn.scale", 4.0},
                       {"model.yarn.original_length", int64_t{8}},
                       {"model.yarn.beta_slow", 40.0}}) ==
        "[transformer] 0 < model.yarn.beta_slow < model.yarn.beta_fast expected: got 40, 32");
  CHECK(options_error({{"model.meta_dense", true}}) ==
        "[transformer] model.meta_dense = true needs model.meta_attention");
}

TEST_CASE("Transformer: YaRN changes angles and temperature, and nothing at scale 1", "[transformer]") {
  const std::vector<double> plain = Small({}).hidden();
  std::map<std::string, Value> yarn = {{"model.yarn.original_length", int64_t{4}}};
  CHECK(Small(yarn).hidden() == plain);
  yarn["model.yarn.scale"] = 4.0;
  CHECK(difference(Small(yarn).hidden(), plain) > 1e-3);
  // Without rotation what is left of YaRN is its factor on queries and keys: scores times (0.1 ln 4 + 1)².
  // Undone by attn_factor, the model is one without positions.
  Small small(yarn);
  const auto zeroed = [](Small& s) {
    return s.hidden([&](nn::ModelInput& in) { in.intervention.zero_position = s.flags(1); });
  };
  const std::vector<double> without = Small(positions("none")).hidden();
  CHECK(difference(zeroed(small), without) > 1e-3);
  yarn["model.yarn.attn_factor"] = 1 / ops::yarn_mscale(4.0);
  Small undone(yarn);
  CHECK(difference(zeroed(undone), without) < 1e-13);
}
