// meta_attention_entropy: its formulas by hand, and its means against a plain loop over one model's
// attention.
#include "experiments/measures/meta_attention_entropy.h"

#include <cmath>
#include <map>

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/evaluate/split_walk.h"
#include "tests/catch.h"
#include "tests/experiments/marked_task.h"

using namespace copylab;

namespace {

constexpr int64_t kLayers = 2, kHeads = 2, kLength = 16, kSequences = 4;

struct Setup {
  Settings settings = check_settings(
      {"model.layers=2", "model.init_std=0.7", "run.measures=meta_attention_entropy",
       "measure.meta_attention_entropy.sequences=4", "measure.meta_attention_entropy.pairs=50"});
  testing::MarkedTask task{settings};
  std::unique_ptr<nn::Model> model = make_model(settings, task, cpu_backend());

  Setup() { model->initialise(5); }
  MeasureOutput measure() {
    MeasureOutput out;
    meta_attention_entropy_measure.run({*model, nullptr, task, settings, cpu_backend(), 1}, out);
    return out;
  }
};

struct AttentionProbe : Probe {
  std::map<std::string, std::vector<double>> found;
  bool wants(const std::string& name) const override {
    return name.ends_with("attn.probs") || name.ends_with("attn.lse") || name.ends_with("resid");
  }
  void take(const std::string& name, const Tensor& value) override {
    found[name] = values_of(cpu_backend(), value);
  }
};

double value(const MeasureOutput& out, const std::string& name) {
  REQUIRE(out.arrays.count(name) == 1);
  return out.arrays.at(name).values.at(0);
}

}  // namespace

TEST_CASE("entropy, boosts and slopes of a row by hand", "[measures][meta]") {
  CHECK(entropy({0.25, 0.25, 0.25, 0.25}) == Approx(std::log(4.0)));
  CHECK(entropy({1.0, 0.0}) == 0.0);
  const std::vector<double> row = {0.7, 0.2, 0.1};
  // Twice the odds of the second.
  const std::vector<double> twice = boosted(row, 1, std::log(2.0));
  CHECK(twice[0] == Approx(0.7 / 1.2));
  CHECK(twice[1] == Approx(0.4 / 1.2));
  CHECK(twice[2] == Approx(0.1 / 1.2));
  // H = 0.8018: only the first has p > exp(-H) = 0.4485.
  CHECK(entropy_slope(row, 0) == Approx(-0.7 * (std::log(0.7) + 0.801818)).epsilon(1e-5));
  CHECK(entropy_slope(row, 0) < 0);
  CHECK(entropy_slope(row, 1) > 0);
  CHECK(entropy(boosted(row, 1, 0.1)) > entropy(row));  // the counter-example to Theorem 4.1
  CHECK(entropy(boosted(row, 0, 0.1)) < entropy(row));
  CHECK(entropy_slope({0.5, 0.5, 0.0}, 0) == Approx(0.0).margin(1e-15));
  CHECK(entropy_slope({0.5, 0.5, 0.0}, 2) == 0.0);
  for (size_t j = 0; j < 3; ++j) {
    const double step = 1e-4;
    const double numeric = (entropy(boosted(row, j, step)) - entropy(boosted(row, j, -step))) / (2 * step);
    CHECK(entropy_slope(row, j) == Approx(numeric).epsilon(1e-6));
  }
}

TEST_CASE("meta_attention_entropy: means over rows are those of a plain loop", "[measures][meta]") {
  Setup setup;
  const MeasureOutput out = setup.measure();
  double rows = 0, with = 0, drop = 0, boost = 0, on_meta = 0, cosine = 0, pairs = 0;
  Tape tape(cpu_backend());
  for (int64_t s = 0; s < kSequences; ++s) {
    const Batch batch = setup.task.batch(Split::test, 1, s, 1);
    AttentionProbe probes[2];
    for (const int zeroed : {0, 1}) {
      tape.begin({.record = false, .training = false, .probe = &probes[zeroed]});
      nn::ModelInput in = model_input(tape, batch);
      if (zeroed) in.intervention.zero_embedding = in.meta;
      setup.model->hidden(tape, in);
    }
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string at = fmt::format("blocks.{}.", layer);
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t t = 3; t < kLength; ++t) {
          if (t % 4 == 2) continue;
          double entropies[2] = {}, top[2] = {};
          for (const int zeroed : {0, 1}) {
            const double* p = probes[zeroed].found.at(at + "attn.probs").data() + (h * kLength + t) * kLength;
            double most = 0;
            for (int64_t j = 0; j <= t; ++j) {
              if (p[j] > 0) entropies[zeroed] -= p[j] * std::log(p[j]);
              most = std::max(most, p[j]);
              if (zeroed == 0 && j % 4 == 2) on_meta += p[j];
            }
            top[zeroed] = std::log(most) + probes[zeroed].found.at(at + "attn.lse")[h * kLength + t];
          }
          rows += 1;
          with += entropies[0];
          drop += entropies[1] - entropies[0];
          boost += top[0] - top[1];
        }
      if (s == 0) continue;  // the null needs a sequence before
      const std::vector<double>& x = probes[0].found.at(at + "resid");
      const int64_t dim = static_cast<int64_t>(x.size()) / kLength;
      for (int64_t t = 2; t < kLength && layer == 0; t += 4) {
        double ab = 0, aa = 0, bb = 0;  // with the token just before
        for (int64_t i = 0; i < dim; ++i) {
          const double a = x[t * dim + i], b = x[(t - 1) * dim + i];
          ab += a * b, aa += a * a, bb += b * b;
        }
        cosine += ab / std::sqrt(aa * bb);
        pairs += 1;
      }
    }
  }
  CHECK(value(out, "entropy") == Approx(with / rows).epsilon(1e-5));
  CHECK(value(out, "entropy_drop") == Approx(drop / rows).margin(1e-6));
  CHECK(value(out, "logit_boost") == Approx(boost / rows).margin(1e-5));
  CHECK(value(out, "on_meta") == Approx(on_meta / rows).epsilon(1e-5));
  CHECK(std::abs(drop / rows) > 1e-4);
  CHECK(out.arrays.at("cosine").values[0] == Approx(cosine / pairs).epsilon(1e-6));
  CHECK(out.coordinates.at("distance")[0] == 1);
  CHECK(value(out, "pairs") == 50);
  CHECK(value(out, "formula_error") < 1e-7);
  CHECK(value(out, "raised") > 0);
}

TEST_CASE("meta_attention_entropy: meta-tokens whose embedding is zero change nothing", "[measures][meta]") {
  Setup setup;
  const Tensor& embedding = setup.model->parameters().find("embed.weight").tensor;
  const int64_t dim = embedding.dim(1), meta = setup.task.vocab() - 1;
  std::fill_n(embedding.data<float>() + meta * dim, dim, 0.0f);
  const MeasureOutput out = setup.measure();
  CHECK(value(out, "entropy_drop") == 0.0);
  CHECK(value(out, "logit_boost") == 0.0);
}

TEST_CASE("meta_attention_entropy: a task without meta-tokens is refused before training",
          "[measures][meta]") {
  Setup setup;
  const auto plain = spamlang_task.make(setup.settings);
  CHECK_THROWS_WITH(
      meta_attention_entropy_measure.plan({*setup.model, nullptr, *plain, setup.settings, cpu_backend(), 1}),
      "[meta_attention_entropy] a task with meta-tokens expected: got spamlang");
  CHECK(meta_attention_entropy_measure.plan(
            {*setup.model, nullptr, setup.task, setup.settings, cpu_backend(), 1}) > 0);
}
