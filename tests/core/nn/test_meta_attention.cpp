// Meta-attention: gathered and masked form agree, rows outside of it are not touched, and its cost.
#include "core/nn/meta_attention.h"

#include <map>

#include "core/nn/model.h"
#include "core/nn/transformer.h"
#include "core/ops/reduce.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

constexpr int64_t kBatch = 3, kLength = 11, kVocab = 7;
const Shape kShape{kBatch, kLength};

// Five meta-tokens, one, and none.
const std::vector<uint8_t> kMeta = {0, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1,   //
                                    0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0,   //
                                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};  //

Settings settings_of(const std::map<std::string, Value>& changes) {
  Settings s;
  for (const Field& field : nn::model_fields()) s.set(field.path, field.fallback);
  const std::map<std::string, Value> small = {{"model.dim", int64_t{12}},  {"model.layers", int64_t{2}},
                                              {"model.heads", int64_t{2}}, {"model.kv_heads", int64_t{1}},
                                              {"model.ffn", int64_t{10}},  {"model.init_std", 0.6}};
  for (const auto& [path, value] : small) s.set(path, value);
  for (const auto& [path, value] : changes) {
    REQUIRE(s.has(path));
    s.set(path, value);
  }
  return s;
}

struct Given {
  std::vector<uint8_t> meta = kMeta;
  std::vector<int32_t> segment = {};
  bool intervene = false;
  bool training = false;
};

// Final hidden states, and the gradients of a random functional of them, of one backbone.
struct Result {
  std::vector<double> hidden;
  std::map<std::string, std::vector<double>> gradients;
};

Result run(const std::map<std::string, Value>& changes, const Given& given = {}, int64_t max_length = kLength,
           std::vector<int32_t> ids = random_ids(kBatch * kLength, "meta.ids", 0, kVocab)) {
  nn::Parameters parameters(cpu_backend(), DType::f64);
  const nn::Transformer model(parameters, nn::transformer_options(settings_of(changes)), kVocab, max_length);
  parameters.allocate();
  parameters.initialise(3);
  Tape tape(cpu_backend());
  tape.begin({.training = given.training, .seed = 9});
  nn::ModelInput in;
  in.tokens = tape.constant(ids, kShape);
  if (!given.meta.empty()) in.meta = tape.constant(given.meta, kShape);
  if (!given.segment.empty()) in.segment = tape.constant(given.segment, kShape);
  if (given.intervene) {
    const auto flags = [&](const char* purpose, Shape shape) {
      std::vector<uint8_t> values;
      for (const int32_t id : random_ids(shape.size(), purpose, 0, 3)) values.push_back(id > 0);
      return tape.constant(values, shape);
    };
    in.intervention = {flags("zero_position", kShape), flags("zero_embedding", kShape),
                       flags("allowed", {kBatch, kLength, kLength})};
  }
  const Tensor h = model.hidden(tape, in);
  const Input upstream = random_input(h.shape(), "meta.upstream");
  tape.backward(ops::weighted_sum(tape, h, tape.constant(upstream.values, h.shape())));
  Result result;
  result.hidden = to_host<double>(cpu_backend(), h);
  for (const auto& entry : parameters.entries()) {
    const double* g = entry.tensor.grad<double>();
    result.gradients[entry.name].assign(g, g + entry.shape.size());
  }
  return result;
}

const std::map<std::string, Value> kAll = {{"model.meta_attention", std::string("all")}};

std::map<std::string, Value> with(std::map<std::string, Value> changes,
                                  const std::map<std::string, Value>& more) {
  for (const auto& [path, value] : more) changes[path] = value;
  return changes;
}

}  // namespace

TEST_CASE("Meta-attention: gathered rows give what masked ones give, and the same gradients", "[meta]") {
  const std::map<std::string, Value> gpt2 = {{"model.norm", std::string("layer")},
                                             {"model.mlp", std::string("relu")},
                                             {"model.bias", true},
                                             {"model.positions", std::string("learned")}};
  Given documents;
  documents.segment = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4,
                       4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  Given intervened = documents;
  intervened.intervene = true;
  Given dropped;
  dropped.training = true;
  const std::pair<std::map<std::string, Value>, Given> cases[] = {
      {kAll, {}},
      {with(kAll, gpt2), {}},
      {{{"model.meta_attention", std::string("first")}}, {}},
      {with(kAll, {{"model.backbone", std::string("sliding")}, {"model.window", int64_t{2}}}), {}},
      {with(kAll, {{"model.positions", std::string("none")}}), documents},
      {kAll, intervened},
      {with(kAll, gpt2), intervened},
      {with(kAll, {{"model.dropout", 0.3}}), dropped},
  };
  for (const auto& [changes, given] : cases) {
    const Result sparse = run(changes, given),
                 dense = run(with(changes, {{"model.meta_dense", true}}), given);
    CHECK(difference(sparse.hidden, dense.hidden) < 1e-13);
    REQUIRE(sparse.gradients.size() == dense.gradients.size());
    for (const auto& [name, gradient] : dense.gradients) {
      CAPTURE(name);
      CHECK(difference(sparse.gradients.at(name), gradient) < 1e-12);
    }
    // The comparison is of something: without meta-attention the states are others.
    const Result without = run(with(changes, {{"model.meta_attention", std::string("none")}}), given);
    CHECK(difference(sparse.hidden, without.hidden) > 1e-2);
  }
}

TEST_CASE("Meta-attention: without meta-tokens a model is the one without meta-attention, bit for bit",
          "[meta]") {
  const Result plain = run({});
  Given unmarked, none;
  unmarked.meta.clear();
  none.meta.assign(kMeta.size(), 0);
  for (const Given& given : {unmarked, none})
    for (const bool dense : {false, true}) {
      const Result r = run(with(kAll, {{"model.meta_dense", dense}}), given);
      CHECK(r.hidden == plain.hidden);
      for (const auto& [name, gradient] : plain.gradients) CHECK(r.gradients.at(name) == gradient);
      for (const double g : r.gradients.at("blocks.1.meta.v.weight")) CHECK(g == 0);
    }
}

TEST_CASE("Meta-attention: rows of ordinary tokens pass unchanged, and documents are not crossed", "[meta]") {
  constexpr int64_t dim = 12;
  const auto row = [](const Result& r, int64_t i) {
    return std::vector<double>(r.hidden.begin() + i * dim, r.hidden.begin() + (i + 1) * dim);
  };
  const std::map<std::string, Value> one = {{"model.layers", int64_t{1}}};
  const Result plain = run(one), meta = run(with(one, kAll));
  for (size_t i = 0; i < kMeta.size(); ++i) {
    CAPTURE(i);
    CHECK((row(plain, i) == row(meta, i)) == (kMeta[i] == 0));
  }
  // Document 1 begins at position 5: its meta-tokens see nothing of tokens 1 and 4.
  Given documents;
  documents.segment.assign(kMeta.size(), 0);
  for (int64_t t = 5; t < kLength; ++t) documents.segment[t] = 1;
  std::vector<int32_t> ids = random_ids(kBatch * kLength, "meta.ids", 0, kVocab);
  const Result before = run(kAll, documents, kLength, ids);
  ids[1] = (ids[1] + 1) % kVocab;
  const Result after = run(kAll, documents, kLength, ids);
  CHECK(row(before, 4) != row(after, 4));
  for (int64_t t = 5; t < kLength; ++t) CHECK(row(before, t) == row(after, t));
}

TEST_CASE("Meta-attention: nothing flows from later tokens to earlier ones", "[meta]") {
  std::vector<int32_t> ids = random_ids(kBatch * kLength, "meta.ids", 0, kVocab);
  const Result before = run(kAll, {}, kLength, ids);
  ids[7] = (ids[7] + 1) % kVocab;  // a meta-token
  const Result after = run(kAll, {}, kLength, ids);
  for (int64_t i = 0; i < kBatch * kLength * 12; ++i) {
    const int64_t position = i / 12;
    if (position < 7 || position >= kLength) CHECK(before.hidden[i] == after.hidden[i]);
  }
  CHECK(before.hidden[10 * 12] != after.hidden[10 * 12]);
}

TEST_CASE("Meta-attention: the same bits on any number of threads", "[meta]") {
  CHECK(same_bits_for_threads([&] {
    std::vector<double> all;
    const Result r = run(kAll);
    all.insert(all.end(), r.hidden.begin(), r.hidden.end());
    for (const auto& [name, gradient] : r.gradients) all.insert(all.end(), gradient.begin(), gradient.end());
    return all;
  }));
}

TEST_CASE("Meta-attention: a probe gets the weights over all positions", "[meta]") {
  struct Weights : Probe {
    std::vector<double> values;
    bool wants(const std::string& name) const override { return name == "blocks.1.meta.probs"; }
    void take(const std::string&, const Tensor& value) override {
      values = to_host<double>(cpu_backend(), value);
    }
  } probe;
  nn::Parameters parameters(cpu_backend(), DType::f64);
  const nn::Transformer model(parameters, nn::transformer_options(settings_of(kAll)), kVocab, kLength);
  parameters.allocate();
  parameters.initialise(3);
  Tape tape(cpu_backend());
  tape.begin({.record = false, .training = false, .probe = &probe});
  nn::ModelInput in;
  in.tokens = tape.constant(random_ids(kBatch * kLength, "meta.ids", 0, kVocab), kShape);
  in.meta = tape.constant(kMeta, kShape);
  const std::vector<double> watched = to_host<double>(cpu_backend(), model.hidden(tape, in));
  CHECK(difference(watched, run(kAll).hidden) < 1e-13);
  REQUIRE(probe.values.size() == kBatch * 2 * kLength * kLength);
  for (int64_t b = 0; b < kBatch; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t t = 0; t < kLength; ++t) {
        double sum = 0;
        for (int64_t j = 0; j < kLength; ++j) {
          const double p = probe.values[((b * 2 + h) * kLength + t) * kLength + j];
          const bool seen = kMeta[b * kLength + t] && kMeta[b * kLength + j] && j <= t;
          CHECK((p > 0) == seen);
          sum += p;
        }
        CHECK(sum == Approx(kMeta[b * kLength + t] ? 1.0 : 0.0).margin(1e-14));
      }
}

TEST_CASE("Meta-attention: errors name what was expected", "[meta]") {
  nn::Parameters parameters(cpu_backend(), DType::f64);
  const nn::Transformer model(parameters, nn::transformer_options(settings_of(kAll)), kVocab, kLength);
  parameters.allocate();
  Tape tape(cpu_backend());
  tape.begin({});
  nn::ModelInput in;
  in.tokens = tape.constant(random_ids(kBatch * kLength, "meta.ids", 0, kVocab), kShape);
  in.meta = tape.constant(std::vector<int32_t>(kMeta.begin(), kMeta.end()), kShape);
  CHECK(error_of([&] { model.hidden(tape, in); }) ==
        "[meta_attention] meta uint8 (3, 11) expected: got int32 (3, 11)");
}

TEST_CASE("Meta-attention: parameters, and the arms that match them", "[meta]") {
  const auto count = [](std::map<std::string, Value> changes) {
    changes.insert({"model.ffn", int64_t{0}});
    nn::Parameters parameters(cpu_backend(), DType::f32);
    const nn::Transformer model(parameters, nn::transformer_options(settings_of(changes)), kVocab, kLength);
    return parameters.count();
  };
  const int64_t d = 96, layers = 2;
  const std::map<std::string, Value> wide = {
      {"model.dim", d}, {"model.heads", int64_t{4}}, {"model.kv_heads", int64_t{4}}};
  const int64_t extra = count(with(wide, kAll)) - count(wide);
  CHECK(extra == layers * (4 * d * d + d));
  CHECK(count(with(wide, {{"model.meta_attention", std::string("last")}})) - count(wide) == extra / layers);
  // As the document of model.ffn says: but for the norm, 4/3 D more of SwiGLU and 2 D more of ReLU.
  CHECK(count(with(wide, {{"model.ffn", nn::default_ffn(nn::FeedForwardKind::swiglu, d) + 4 * d / 3}})) -
            count(wide) ==
        layers * 4 * d * d);
  const auto relu = with(wide, {{"model.mlp", std::string("relu")}});
  CHECK(count(with(relu, {{"model.ffn", 6 * d}})) - count(relu) == layers * 4 * d * d);
}

TEST_CASE("Meta-attention: operations and cache grow by what M of T rows take", "[meta]") {
  nn::Parameters parameters(cpu_backend(), DType::f32), same(cpu_backend(), DType::f32);
  const int64_t d = 12, kv = 6, length = 40;  // four meta-tokens
  nn::Transformer model(parameters, nn::transformer_options(settings_of(kAll)), kVocab, length);
  nn::Transformer dense(same, nn::transformer_options(settings_of(with(kAll, {{"model.meta_dense", true}}))),
                        kVocab, length);
  const double without = model.flops_per_token(length);
  const int64_t cache = model.cache_numbers(length);
  model.expect_meta(0.1);
  dense.expect_meta(0.1);
  // Two blocks; 4 and 40 rows, which see 2.5 and 20.5 on average.
  const double projections = 2.0 * (2 * d * d + 2 * d * kv);
  CHECK(model.flops_per_token(length) - without == Approx(2 * 0.1 * (projections + 4 * d * 2.5)));
  CHECK(dense.flops_per_token(length) - without == Approx(2 * (projections + 4 * d * 20.5)));
  CHECK(model.cache_numbers(length) - cache == 2 * (2 * kv) * 4);
}
