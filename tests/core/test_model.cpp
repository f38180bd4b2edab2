// Model: parameter counts, and heads whose probabilities over the whole vocabulary are taken one by one.
#include "core/nn/model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "core/nn/heads/heads.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;

namespace {

// Defaults of model.* and of one head's fields, then `changes`.
Settings settings_for(const std::string& head, const std::map<std::string, Value>& changes) {
  Settings s;
  for (const Field& field : nn::model_fields()) s.set(field.path, field.fallback);
  const auto preset = changes.find("model.preset");
  for (const auto& [name, values] : nn::model_presets())
    if (preset != changes.end() && std::get<std::string>(preset->second) == name)
      for (const auto& [path, value] : values) s.set(path, value);
  s.set("head.kind", head);
  for (const Field& field : nn::find_head(head).fields()) s.set(field.path, field.fallback);
  for (const auto& [path, value] : changes) {
    INFO(path);
    REQUIRE(s.has(path));
    s.set(path, value);
  }
  return s;
}

const std::map<std::string, Value> kTiny = {{"model.dim", int64_t{8}},
                                            {"model.layers", int64_t{2}},
                                            {"model.heads", int64_t{2}},
                                            {"model.kv_heads", int64_t{2}},
                                            {"model.ffn", int64_t{12}}};

constexpr int64_t kVocab = 7, kBatch = 2, kLength = 5;
const std::vector<int32_t> kTokens = {3, 1, 3, 0, 1, 6, 6, 2, 6, 5};

// Every quantity at every position when each position is asked for token `target`.
struct Answers {
  std::vector<double> nll, lm_nll, copy_nll, gate, sink;
  std::vector<int32_t> argmax, lm_argmax, copy_argmax;
};

Answers ask(const nn::Model& model, const std::vector<int32_t>& targets) {
  const Backend& cpu = cpu_backend();
  Tape tape(cpu);
  Tape::Options options;
  options.record = options.training = false;
  tape.begin(options);
  nn::ModelInput in;
  in.tokens = tape.constant(kTokens, {kBatch, kLength});
  in.targets = tape.constant(targets, {kBatch, kLength});
  in.want_argmax = true;
  const nn::HeadOutput out = model.forward(tape, in);
  Answers a;
  a.nll = to_host<double>(cpu, out.nll);
  a.lm_nll = to_host<double>(cpu, out.lm_nll);
  a.argmax = to_host<int32_t>(cpu, out.argmax);
  a.lm_argmax = to_host<int32_t>(cpu, out.lm_argmax);
  if (out.gate) {
    a.copy_nll = to_host<double>(cpu, out.copy_nll);
    a.gate = to_host<double>(cpu, out.gate);
    a.sink = to_host<double>(cpu, out.sink);
    a.copy_argmax = to_host<int32_t>(cpu, out.copy_argmax);
  }
  return a;
}

std::vector<int32_t> everywhere(int32_t target) {
  return std::vector<int32_t>(kTokens.size(), target);
}

std::unique_ptr<nn::Model> make(const std::string& head, std::map<std::string, Value> changes) {
  changes.insert(kTiny.begin(), kTiny.end());
  auto model =
      std::make_unique<nn::Model>(cpu_backend(), DType::f64, settings_for(head, changes), kVocab, kLength);
  model->initialise(11);
  // Larger output weights than at initialisation: gates and pointers that are far from uniform.
  for (const auto& entry : model->parameters().entries())
    if (entry.decay)
      for (int64_t i = 0; i < entry.tensor.size(); ++i) entry.tensor.data<double>()[i] *= 3.0;
  return model;
}

}  // namespace

TEST_CASE("shape-135M has SmolLM2-135M's number of parameters", "[model]") {
  const Settings s = settings_for("vanilla", {{"model.preset", std::string("shape-135M")}});
  const nn::Model model(cpu_backend(), DType::f32, s, 49152, 2048);
  CHECK(model.parameters().count() == 134515008);
  CHECK(model.parameters().find("blocks.29.attn.k.weight").shape == Shape{192, 576});
}

TEST_CASE("the copy head adds two D x D matrices, a row, a sink and a gain", "[model]") {
  for (const char* shape : {"nano", "micro", "mini"}) {
    const std::map<std::string, Value> changes = {{"model.preset", std::string(shape)}};
    const nn::Model plain(cpu_backend(), DType::f32, settings_for("vanilla", changes), 1000, 64);
    const nn::Model copy(cpu_backend(), DType::f32, settings_for("copy_paste", changes), 1000, 64);
    const int64_t d = plain.dim();
    CHECK(copy.parameters().count() - plain.parameters().count() == 2 * d * d + 2 * d + 1);
  }
}

TEST_CASE("the pointer sentinel adds W, b and the sentinel, a mixture of softmaxes K (D + 1) rows",
          "[model]") {
  const auto count = [](const std::string& head, std::map<std::string, Value> changes) {
    changes["model.preset"] = std::string("micro");
    return nn::Model(cpu_backend(), DType::f32, settings_for(head, changes), 1000, 64).parameters().count();
  };
  const int64_t plain = count("vanilla", {}), d = 128;
  CHECK(count("pointer_sentinel", {}) - plain == d * d + 2 * d);
  CHECK(count("pointer_sentinel", {{"head.projection", std::string("none")}}) - plain == d);
  // Another gate instead of the sentinel; without an LM head, an untied model has no output matrix either.
  CHECK(count("pointer_sentinel", {{"head.gate", std::string("sigmoid")}}) - plain == d * d + 2 * d + 1);
  CHECK(count("pointer_sentinel", {{"head.gate", std::string("constant")}}) - plain == d * d + d + 1);
  const std::map<std::string, Value> untied = {{"model.tied", false}};
  std::map<std::string, Value> alone = untied;
  alone["head.mixture"] = std::string("pointer");
  CHECK(count("vanilla", untied) - count("pointer_sentinel", alone) == 1000 * d - (d * d + 2 * d));
  CHECK(count("mixture_of_softmaxes", {{"head.components", int64_t{5}}}) - plain == 5 * (d * d + d));
}

TEST_CASE("a pointer sees (T + 1)/2 keys on average, or those of its window", "[model][heads]") {
  for (const int64_t window : {0, 1, 3, 7, 9}) {
    double keys = 0;
    for (int64_t t = 0; t < 7; ++t) keys += static_cast<double>(window ? std::min(window, t + 1) : t + 1) / 7;
    CHECK(nn::mean_keys(7, window) == Approx(keys).epsilon(1e-14));
  }
}

TEST_CASE("cache of the copy head follows the formula of papers §2.2", "[model]") {
  // 24 layers of full multi-head attention at T = 16 w: full against sliding with copy keys is 12.0.
  const std::map<std::string, Value> wide = {
      {"model.dim", int64_t{64}}, {"model.layers", int64_t{24}}, {"model.heads", int64_t{4}}};
  auto sliding = wide;
  sliding["model.backbone"] = std::string("sliding");
  sliding["model.window"] = int64_t{16};
  const nn::Model full(cpu_backend(), DType::f32, settings_for("vanilla", wide), 100, 256);
  const nn::Model copy(cpu_backend(), DType::f32, settings_for("copy_paste", sliding), 100, 256);
  CHECK(static_cast<double>(full.cache_bytes(256)) / static_cast<double>(copy.cache_bytes(256)) == 12.0);
}

TEST_CASE("heads refuse shapes that do not fit, by name", "[model]") {
  CHECK_THROWS_WITH(
      nn::Model(cpu_backend(), DType::f32,
                settings_for("vanilla", {{"model.dim", int64_t{64}}, {"model.heads", int64_t{5}}}), 10, 8),
      "[transformer] model.heads = 5 must divide model.dim = 64 into heads of even width");
  CHECK_THROWS_WITH(
      nn::Model(cpu_backend(), DType::f32, settings_for("vanilla", {{"head.rank", int64_t{4}}}), 10, 8),
      "[head] head.rank = 4 needs model.tied = false");
}

TEST_CASE("probabilities over the vocabulary: sum, argmax and modes", "[model][heads]") {
  struct Case {
    const char* name;
    std::string head;
    std::map<std::string, Value> changes;
    bool proper;  // sums to one
  };
  const std::string slot = "slot", sigmoid = "sigmoid";
  const Case cases[] = {
      {"vanilla", "vanilla", {}, true},
      {"vanilla untied", "vanilla", {{"model.tied", false}}, true},
      {"vanilla rank 3", "vanilla", {{"model.tied", false}, {"head.rank", int64_t{3}}}, true},
      {"vanilla backward rank 3", "vanilla", {{"head.backward_rank", int64_t{3}}}, true},
      {"A", "copy_paste", {}, true},
      {"A untied", "copy_paste", {{"model.tied", false}}, true},
      {"A without self", "copy_paste", {{"head.copy_self", false}}, true},
      {"A next", "copy_paste", {{"head.key_token", std::string("next")}}, true},
      {"A next without self",
       "copy_paste",
       {{"head.key_token", std::string("next")}, {"head.copy_self", false}},
       true},
      {"A without norm", "copy_paste", {{"head.qk_norm", false}}, true},
      {"A narrow", "copy_paste", {{"head.dim", int64_t{4}}}, true},
      {"A window", "copy_paste", {{"head.window", int64_t{2}}}, true},
      {"A gate cut", "copy_paste", {{"head.detach", std::string("gate")}}, true},
      {"A LM cut", "copy_paste", {{"head.detach", std::string("lm")}}, true},
      {"B", "copy_paste", {{"head.sink", std::string("dropped")}}, false},
      {"F", "copy_paste", {{"head.sink", std::string("off")}}, true},
      {"F without self", "copy_paste", {{"head.sink", std::string("off")}, {"head.copy_self", false}}, true},
      {"G", "copy_paste", {{"head.gate", sigmoid}}, true},
      {"F and G", "copy_paste", {{"head.gate", sigmoid}, {"head.sink", std::string("off")}}, true},
      {"I", "copy_paste", {{"head.gate_floor", 0.3}}, true},
      {"MoS", "mixture_of_softmaxes", {}, true},
      {"MoS untied", "mixture_of_softmaxes", {{"model.tied", false}}, true},
      {"MoS rank 3", "mixture_of_softmaxes", {{"model.tied", false}, {"head.rank", int64_t{3}}}, true},
      {"MoS of one", "mixture_of_softmaxes", {{"head.components", int64_t{1}}}, true},
      {"H", "pointer_sentinel", {}, true},
      {"H untied", "pointer_sentinel", {{"model.tied", false}}, true},
      {"H window", "pointer_sentinel", {{"head.window", int64_t{2}}}, true},
      {"H without projection", "pointer_sentinel", {{"head.projection", std::string("none")}}, true},
      {"H scaled", "pointer_sentinel", {{"head.scale", std::string("sqrt")}}, true},
      {"H large sentinel", "pointer_sentinel", {{"head.sentinel_std", 3.0}}, true},
      {"H sigmoid", "pointer_sentinel", {{"head.gate", sigmoid}, {"head.window", int64_t{3}}}, true},
      {"H constant", "pointer_sentinel", {{"head.gate", std::string("constant")}}, true},
      {"H pointer alone", "pointer_sentinel", {{"head.mixture", std::string("pointer")}}, true},
      {"H pointer alone untied",
       "pointer_sentinel",
       {{"head.mixture", std::string("pointer")}, {"model.tied", false}, {"head.gate", sigmoid}},
       true},
      {"hybrid backbone",
       "copy_paste",
       {{"model.backbone", std::string("hybrid")}, {"model.window", int64_t{2}}},
       true},
  };
  for (const Case& c : cases) {
    DYNAMIC_SECTION(c.name) {
      const auto model = make(c.head, c.changes);
      const size_t n = kTokens.size();
      std::vector<double> sum(n, 0), lm_sum(n, 0), copy_sum(n, 0), top(n, -1), lm_top(n, -1), copy_top(n, 0);
      std::vector<int32_t> best(n), lm_best(n), copy_best(n, -1);
      std::vector<std::vector<double>> natural_p(kVocab, std::vector<double>(n)), lm_p = natural_p,
                                                                                  copy_p = natural_p;
      Answers a;
      for (int32_t v = 0; v < kVocab; ++v) {
        a = ask(*model, everywhere(v));
        REQUIRE(a.nll.size() == n);
        for (size_t i = 0; i < n; ++i) {
          const double p = std::exp(-a.nll[i]), lm = std::exp(-a.lm_nll[i]);
          natural_p[v][i] = p;
          lm_p[v][i] = lm;
          sum[i] += p;
          lm_sum[i] += lm;
          if (p > top[i]) top[i] = p, best[i] = v;
          if (lm > lm_top[i]) lm_top[i] = lm, lm_best[i] = v;
          if (a.copy_nll.empty()) continue;
          const double copy = std::exp(-a.copy_nll[i]);
          copy_p[v][i] = copy;
          copy_sum[i] += copy;
          if (copy > copy_top[i]) copy_top[i] = copy, copy_best[i] = v;
        }
      }
      for (size_t i = 0; i < n; ++i) {
        INFO("position " << i);
        const double lost = c.proper ? 0.0 : a.gate[i] * a.sink[i];
        CHECK(sum[i] == Approx(1.0 - lost).epsilon(1e-10));
        CHECK(lm_sum[i] == Approx(1.0).epsilon(1e-10));
        CHECK(a.argmax[i] == best[i]);
        CHECK(a.lm_argmax[i] == lm_best[i]);
        if (a.copy_nll.empty()) continue;
        CHECK(a.copy_argmax[i] == copy_best[i]);
        for (int32_t v = 0; v < kVocab; ++v) {  // the form of HeadOutput
          const double copied = a.gate[i] * (1.0 - a.sink[i]);
          const double p = lm_p[v][i] * (1.0 - copied - lost) + copied * copy_p[v][i];
          CHECK(natural_p[v][i] == Approx(p).epsilon(1e-10));
        }
        CHECK(copy_sum[i] == Approx(copy_best[i] < 0 ? 0.0 : 1.0).epsilon(1e-10));
      }
      if (!c.proper) CHECK(sum[1] < 1.0 - 1e-6);
    }
  }
}

TEST_CASE("without an LM head the vocabulary's share goes to all tokens alike", "[model][heads]") {
  const auto model = make("pointer_sentinel", {{"head.mixture", std::string("pointer")}});
  for (int32_t v = 0; v < kVocab; ++v) {
    const Answers a = ask(*model, everywhere(v));
    for (size_t i = 0; i < a.nll.size(); ++i) {
      CHECK(a.lm_nll[i] == Approx(std::log(static_cast<double>(kVocab))).epsilon(1e-14));
      // Out of reach, a word has exactly g/V.
      if (std::isinf(a.copy_nll[i]))
        CHECK(std::exp(-a.nll[i]) == Approx(a.sink[i] / static_cast<double>(kVocab)).epsilon(1e-12));
    }
  }
}

TEST_CASE("unlabelled positions are left out, in order", "[model][heads]") {
  for (const char* head : {"vanilla", "copy_paste", "pointer_sentinel", "mixture_of_softmaxes"}) {
    const auto model = make(head, {});
    std::vector<int32_t> targets = {1, -1, 2, -1, -1, 5, 5, -1, 0, 6};
    const Answers some = ask(*model, targets);
    std::vector<int32_t> all = targets;
    for (int32_t& t : all) t = std::max(t, 0);
    const Answers full = ask(*model, all);
    std::vector<double> expected;
    for (size_t i = 0; i < targets.size(); ++i)
      if (targets[i] >= 0) expected.push_back(full.nll[i]);
    REQUIRE(some.nll.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) CHECK(some.nll[i] == Approx(expected[i]).epsilon(1e-12));
  }
}

TEST_CASE("the most probable token of a mixture of softmaxes is that of the dense mixture",
          "[model][heads]") {
  // Of 64 components, 640 softmaxes of 4000 tokens are searched in several tiles.
  constexpr int64_t vocab = 4000, dim = 8, n = kBatch * kLength;
  int beyond_the_components = 0;
  for (const int64_t k : {2, 3, 4, 64}) {
    std::map<std::string, Value> changes = kTiny;
    changes["head.components"] = k;
    nn::Model model(cpu_backend(), DType::f64, settings_for("mixture_of_softmaxes", changes), vocab, kLength);
    model.initialise(7);
    // Flat softmaxes: the best token of their mean is then often the favourite of none.
    const Tensor& embedding = model.parameters().find("embed.weight").tensor;
    for (int64_t i = 0; i < embedding.size(); ++i) embedding.data<double>()[i] *= 0.2;
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    nn::ModelInput in;
    in.tokens = tape.constant(kTokens, {kBatch, kLength});
    in.targets = tape.constant(kTokens, {kBatch, kLength});
    in.want_argmax = true;
    const nn::HeadOutput out = model.forward(tape, in);
    const double* h = model.hidden(tape, in).data<double>();
    const double* w = embedding.data<double>();
    const double* prior = model.parameters().find("mixture_head.prior.weight").tensor.data<double>();
    const double* latent = model.parameters().find("mixture_head.latent.weight").tensor.data<double>();
    const auto dot = [](const double* a, const double* b) {
      double sum = 0;
      for (int64_t d = 0; d < dim; ++d) sum += a[d] * b[d];
      return sum;
    };
    for (int64_t i = 0; i < n; ++i) {
      const double* x = h + i * dim;
      std::vector<double> p(vocab, 0.0);
      double normaliser = 0;
      std::set<int32_t> favourites;
      for (int64_t c = 0; c < k; ++c) {
        double state[dim];
        for (int64_t d = 0; d < dim; ++d) state[d] = std::tanh(dot(latent + (c * dim + d) * dim, x));
        const double weight = std::exp(dot(prior + c * dim, x));
        normaliser += weight;
        std::vector<double> e(vocab);
        double sum = 0;
        for (int64_t v = 0; v < vocab; ++v) sum += e[v] = std::exp(dot(w + v * dim, state));
        for (int64_t v = 0; v < vocab; ++v) p[v] += weight * e[v] / sum;
        favourites.insert(static_cast<int32_t>(std::max_element(e.begin(), e.end()) - e.begin()));
      }
      const auto best = static_cast<int32_t>(std::max_element(p.begin(), p.end()) - p.begin());
      CHECK(out.argmax.data<int32_t>()[i] == best);
      CHECK(out.nll.data<double>()[i] == Approx(-std::log(p[kTokens[i]] / normaliser)).epsilon(1e-12));
      beyond_the_components += favourites.count(best) == 0;
    }
  }
  INFO("positions whose most probable token is no component's favourite");
  CHECK(beyond_the_components > 0);
}

TEST_CASE("what only another backbone reads is refused, not ignored", "[model]") {
  const auto error_of = [](std::map<std::string, Value> changes) {
    return testing::message_of(
        [&] { nn::Model(cpu_backend(), DType::f32, settings_for("vanilla", changes), 10, 8); });
  };
  const Value lstm = std::string("lstm");
  CHECK(error_of({{"model.zoneout_h", 0.1}}) ==
        "[model] model.zoneout_h = 0.1 needs model.kind = lstm: got transformer");
  CHECK(error_of({{"model.init_range", 0.1}}) ==
        "[model] model.init_range = 0.1 needs model.kind = lstm: got transformer");
  for (const auto& [path, value, text] : std::initializer_list<std::tuple<const char*, Value, const char*>>{
           {"model.yarn.scale", 4.0, "4"},
           {"model.positions", std::string("none"), "none"},
           {"model.max_positions", int64_t{99}, "99"},
           {"model.backbone", std::string("sliding"), "sliding"},
           {"model.meta_attention", std::string("all"), "all"},
           {"model.meta_dense", true, "true"}})
    CHECK(error_of({{"model.kind", lstm}, {path, value}}) ==
          fmt::format("[model] {} = {} needs model.kind = transformer: got lstm", path, text));
  // They read these, or take them from a preset.
  CHECK(error_of({{"model.kind", lstm},
                  {"model.dim", int64_t{12}},
                  {"model.layers", int64_t{2}},
                  {"model.heads", int64_t{3}},
                  {"model.dropout", 0.5}}) == "no error");
}

TEST_CASE("heads refuse auxiliary losses that they cannot have", "[model][heads]") {
  const auto build = [](const std::map<std::string, Value>& changes) {
    nn::Model(cpu_backend(), DType::f32, settings_for("copy_paste", changes), 10, 8);
  };
  CHECK_THROWS_WITH(build({{"head.pointer_aux", 0.5}, {"head.sink", std::string("off")}}),
                    "[head] head.pointer_aux = 0.5 needs a sink");
  CHECK_THROWS_WITH(
      build({{"head.lm_aux_over", std::string("extended")}, {"head.gate", std::string("sigmoid")}}),
      "[head] head.lm_aux_over = extended needs head.gate = slot");
}

TEST_CASE("a target outside of the vocabulary is an error that names it", "[model]") {
  const auto model = make("vanilla", {});
  CHECK_THROWS_WITH(ask(*model, everywhere(7)),
                    "[model] target 7 at position 0 is outside of the vocabulary of 7");
}

TEST_CASE("the loss at initialisation is near log V + 1/2", "[model]") {
  // Normed states and rows of standard deviation 1/sqrt(D) give logits of unit variance.
  const Settings s = settings_for("vanilla", {{"model.tied", false}});
  nn::Model model(cpu_backend(), DType::f32, s, 5000, 16);
  model.initialise(1);
  Tape tape(cpu_backend());
  tape.begin({});
  std::vector<int32_t> tokens(64), targets(64);
  const Random random(5, "tokens");
  for (int i = 0; i < 64; ++i) {
    tokens[i] = static_cast<int32_t>(random.below(i, 5000));
    targets[i] = static_cast<int32_t>(random.below(1000 + i, 5000));
  }
  nn::ModelInput in;
  in.tokens = tape.constant(tokens, {4, 16});
  in.targets = tape.constant(targets, {4, 16});
  const auto nll = to_host<float>(cpu_backend(), model.forward(tape, in).nll);
  double mean = 0;
  for (float x : nll) mean += x / 64.0;
  CHECK(mean == Approx(std::log(5000.0) + 0.5).margin(0.6));
}
