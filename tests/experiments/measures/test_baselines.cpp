// Baselines on top of a trained model (neural cache, exact match) and the overhead of a head: against brute
// force and cases worked by hand.
#include <cmath>

#include "experiments/evaluate/evaluate.h"
#include "experiments/measures/exact_match.h"
#include "experiments/measures/neural_cache.h"
#include "experiments/measures/overhead.h"
#include "experiments/train/train_fields.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

// Sequences of random tokens of a small vocabulary; the target is the next token, now and then missing.
ScoredSplit random_split(int64_t sequences, int64_t length, int64_t dim, bool documents) {
  ScoredSplit s;
  s.sequences = sequences;
  s.length = length;
  s.dim = dim;
  const Random random(3, "test_baselines");
  const int64_t n = sequences * length;
  for (int64_t i = 0; i < n; ++i) s.tokens.push_back(static_cast<int32_t>(random.below(i, 3)));
  for (int64_t i = 0; i < n; ++i)
    s.targets.push_back(i % length + 1 < length ? s.tokens[i + 1]
                                                : static_cast<int32_t>(random.below(n + i, 3)));
  for (int64_t i = 0; i < n; i += 5) s.targets[i] = -1;
  for (int64_t i = 0; documents && i < n; ++i) s.segment.push_back(static_cast<int32_t>(i % length / 4));
  s.nll.assign(n, 1.0);
  for (int64_t i = 0; i < n * dim; ++i) s.hidden.push_back(static_cast<float>(random.normal(10 * n + i)));
  return s;
}

// p(target) of the cache from its definition, over i < t with i + 1 <= t.
double cache_by_definition(const ScoredSplit& s, int64_t sequence, int64_t t, double theta, int64_t window) {
  const int64_t start = sequence * s.length;
  double all = 0, right = 0;
  for (int64_t i = 0; i < t; ++i) {
    if (!s.segment.empty() && s.segment[start + i] != s.segment[start + t]) continue;
    if (window > 0 && t - i > window) continue;
    double score = 0;
    for (int64_t d = 0; d < s.dim; ++d)
      score += static_cast<double>(s.hidden[(start + t) * s.dim + d]) *
               static_cast<double>(s.hidden[(start + i) * s.dim + d]);
    all += std::exp(theta * score);
    if (s.tokens[start + i + 1] == s.targets[start + t]) right += std::exp(theta * score);
  }
  return all > 0 && s.targets[start + t] >= 0 ? right / all : -1.0;
}

// The longest match from its definition; of equals the one nearest to t.
SuffixMatch match_by_definition(const ScoredSplit& s, int64_t sequence, int64_t t) {
  const int64_t start = sequence * s.length;
  SuffixMatch best;
  for (int64_t i = 0; i < t; ++i) {
    if (!s.segment.empty() && s.segment[start + i] != s.segment[start + t]) continue;
    int64_t length = 0;
    while (length <= i && s.tokens[start + i - length] == s.tokens[start + t - length] &&
           (s.segment.empty() || (s.segment[start + i - length] == s.segment[start + i] &&
                                  s.segment[start + t - length] == s.segment[start + t])))
      ++length;
    if (length > 0 && length >= best.length) best = {length, t - i, s.tokens[start + i + 1]};
  }
  return best;
}

struct Case {
  std::unique_ptr<Task> task;
  Settings settings;
  std::unique_ptr<nn::Model> model;

  // SpamLang with 8 symbols shown twice, and an untrained model.
  explicit Case(const std::string& head) {
    const TaskEntry& entry = find_task("spamlang");
    settings = task_settings(
        entry, {{"task.vocab", int64_t{40}}, {"task.length", int64_t{16}}, {"task.period", int64_t{8}}});
    task = entry.make(settings);
    const auto add = [&](const std::vector<Field>& fields) {
      for (const Field& field : fields) settings.set(field.path, field.fallback);
    };
    add(nn::model_fields());
    add(nn::find_head(head).fields());
    add(train_fields());
    for (const MeasureEntry& measure : measure_registry()) add(measure.fields());
    settings.set("head.kind", head);
    settings.set("model.dim", int64_t{8});
    settings.set("model.heads", int64_t{2});
    settings.set("model.kv_heads", int64_t{2});
    settings.set("model.layers", int64_t{1});
    settings.set("eval.sequences", int64_t{64});
    settings.set("eval.test_sequences", int64_t{40});
    settings.set("eval.batch", int64_t{7});
    settings.set("measure.overhead.repeats", int64_t{2});
    model = std::make_unique<nn::Model>(cpu_backend(), DType::f32, settings, 40, 16);
    model->allocate();
    model->initialise(1);
  }
  MeasureOutput measure(const MeasureEntry& entry, SplitCache* cache = nullptr) {
    MeasureOutput out;
    entry.run({*model, nullptr, *task, settings, cpu_backend(), 5, cache}, out);
    return out;
  }
};

double scalar(const MeasureOutput& out, const std::string& name) {
  INFO(name);
  REQUIRE(out.arrays.count(name) == 1);
  return out.arrays.at(name).values[0];
}

}  // namespace

TEST_CASE("the best weight of a mixture is where its likelihood is largest", "[measures]") {
  // k of n pairs are hits of a copy, the model gives p0 to all: a quotient, with the event that is added.
  for (const int hits : {1, 5, 20}) {
    const int n = 20;
    const double p0 = 0.2;
    std::vector<double> q(n, 0.0);
    std::fill(q.begin(), q.begin() + hits, 1.0);
    const double expected = std::max(0.0, (hits * (1 - p0) - (n - hits + 1) * p0) / ((1 - p0) * (n + 1)));
    CHECK(best_mixture_weight(std::vector<double>(n, p0), q) == Approx(expected).margin(1e-12));
  }
  CHECK(best_mixture_weight({}, {}) == Approx(0.0).margin(1e-15));
  CHECK(best_mixture_weight({0.0}, {1.0}) == Approx(0.5).epsilon(1e-12));  // w (1 - w)

  std::vector<double> p, q;
  const Random random(1, "weights");
  for (int i = 0; i < 60; ++i) {
    p.push_back(random.uniform(2 * i));
    q.push_back(i % 3 ? random.uniform(2 * i + 1) : 0.0);
  }
  const auto likelihood = [&](double w) {
    double sum = std::log(1 - w);
    for (size_t i = 0; i < p.size(); ++i) sum += std::log((1 - w) * p[i] + w * q[i]);
    return sum;
  };
  const double best = best_mixture_weight(p, q);
  CHECK(best > 0.01);
  for (int i = 0; i < 1000; ++i) CHECK(likelihood(best) >= likelihood(i / 1000.0));
}

TEST_CASE("the cache's probabilities follow their definition", "[measures]") {
  for (const bool documents : {false, true}) {
    const ScoredSplit s = random_split(2, 13, 3, documents);
    for (const int64_t window : {0, 3})
      for (const double theta : {0.0, 0.7, 40.0})
        for (int64_t sequence = 0; sequence < 2; ++sequence) {
          std::vector<double> found;  // in two bands of rows
          for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 5}, {5, 13}}) {
            const auto part = cache_probabilities(s, sequence, cache_scores(s, sequence, first, end, window),
                                                  theta, window);
            found.insert(found.end(), part.begin(), part.end());
          }
          REQUIRE(found.size() == 13);
          CHECK(found[0] == -1.0);
          for (int64_t t = 0; t < 13; ++t)
            CHECK(found[t] == Approx(cache_by_definition(s, sequence, t, theta, window)).margin(1e-12));
        }
  }
}

TEST_CASE("suffix matches: a case by hand, and the definition", "[measures]") {
  ScoredSplit hand;
  hand.sequences = 1;
  hand.length = 8;
  hand.tokens = {1, 2, 3, 1, 2, 4, 1, 2};
  const std::vector<SuffixMatch> found = suffix_matches(hand, 0);
  CHECK(found[2].length == 0);
  CHECK(found[3].length == 1);  // "1" at 0
  CHECK(found[3].next == 2);
  CHECK(found[4].length == 2);  // "1 2" at 0..1
  CHECK(found[4].next == 3);
  CHECK(found[7].length == 2);  // "1 2" at 0..1 and 3..4: the later one
  CHECK(found[7].distance == 3);
  CHECK(found[7].next == 4);

  for (const bool documents : {false, true}) {
    const ScoredSplit s = random_split(3, 25, 1, documents);
    for (int64_t sequence = 0; sequence < 3; ++sequence) {
      const std::vector<SuffixMatch> all = suffix_matches(s, sequence);
      for (int64_t t = 0; t < 25; ++t) {
        const SuffixMatch expected = match_by_definition(s, sequence, t);
        CHECK(all[t].length == expected.length);
        CHECK(all[t].distance == expected.distance);
        CHECK(all[t].next == expected.next);
      }
    }
  }
}

TEST_CASE("baselines start from the model's own loss, and exact matches solve a repetition", "[measures]") {
  for (const char* head : {"vanilla", "copy_paste"}) {
    Case c(head);
    const Evaluation test = evaluate(*c.model, *c.task, Split::test, 5, 40, 16);
    for (const MeasureEntry* entry : {&neural_cache_measure, &exact_match_measure}) {
      INFO(head << " " << entry->name);
      const MeasureOutput out = c.measure(*entry);
      CHECK(scalar(out, "base_loss") == Approx(test.loss()).epsilon(1e-6));
      CHECK(scalar(out, "gain") == Approx(scalar(out, "base_loss") - scalar(out, "loss")).epsilon(1e-12));
      CHECK(scalar(out, "gain") > 0);
    }
    // From the second showing on, the token 8 back says what comes: half of the labels, at a distance of 8.
    const MeasureOutput out = c.measure(exact_match_measure);
    CHECK(scalar(out, "matched") >= 0.5);
    CHECK(scalar(out, "precision") > 0.85);
    CHECK(scalar(out, "loss") < 0.65 * scalar(out, "base_loss"));
  }
}

TEST_CASE("baselines share the passes over both splits", "[measures]") {
  Case c("vanilla");
  SplitCache cache;
  const auto same = [](const MeasureOutput& a, const MeasureOutput& b) {
    return std::equal(a.arrays.begin(), a.arrays.end(), b.arrays.begin(), b.arrays.end(),
                      [](const auto& x, const auto& y) { return x.second.values == y.second.values; });
  };
  CHECK(same(c.measure(neural_cache_measure, &cache), c.measure(neural_cache_measure)));
  REQUIRE(cache.splits.size() == 2);
  CHECK(cache.used);
  CHECK(same(c.measure(exact_match_measure, &cache), c.measure(exact_match_measure)));
  // What is kept is what the next measure reads.
  auto other = std::make_shared<ScoredSplit>(*cache.splits.at(Split::test));
  for (double& nll : other->nll) nll = 1.0;
  cache.splits[Split::test] = other;
  CHECK(scalar(c.measure(exact_match_measure, &cache), "base_loss") == 1.0);
}

TEST_CASE("baselines report losses by slice as evaluations do", "[measures]") {
  const TaskEntry& entry = find_task("text");
  const auto task = entry.make(task_settings(
      entry, {{"task.corpus", std::string("tinyshakespeare")}, {"task.level", std::string("byte")}}));
  ScoredSplit test;
  test.targets = {1, 1, -1, 1};
  test.slice = {0, 0, 1, 0};
  test.nll = {2, 4, 9, 6};
  MeasureOutput out;
  report_losses(test, {1, 1, 9, 4}, *task, out);
  CHECK(out.labels.at("slice") == std::vector<std::string>{"copyable", "new"});
  CHECK(scalar(out, "gain") == 2.0);
  for (const auto& [name, value] : {std::pair("loss", 2.0), {"base_loss", 4.0}, {"gain", 2.0}}) {
    const MeasureOutput::Array& by_slice = out.arrays.at(name + std::string("_by_slice"));
    CHECK(by_slice.dims == std::vector<std::string>{"slice"});
    CHECK(by_slice.values[0] == value);
    CHECK(std::isnan(by_slice.values[1]));  // no labels there
  }
}

TEST_CASE("neural_cache reports the setting that was best on the validation split", "[measures]") {
  Case c("vanilla");
  c.settings.set("measure.neural_cache.windows", std::vector<int64_t>{8, 2});
  const MeasureOutput out = c.measure(neural_cache_measure);
  const MeasureOutput::Array& losses = out.arrays.at("valid_loss");
  REQUIRE(losses.shape == std::vector<int64_t>{2, 15});
  const int64_t best = std::min_element(losses.values.begin(), losses.values.end()) - losses.values.begin();
  CHECK(scalar(out, "theta") == out.coordinates.at("theta_tried")[best % 15]);
  CHECK(scalar(out, "window") == out.coordinates.at("window_tried")[best / 15]);
  CHECK(scalar(out, "lambda") == out.arrays.at("valid_lambda").values[best]);
  CHECK(scalar(out, "window") == 8);  // the same symbol stood 8 back
}

TEST_CASE("overhead counts parameters and operations, and leaves the model alone", "[measures]") {
  Case plain("vanilla");
  const MeasureOutput none = plain.measure(overhead_measure);
  CHECK(scalar(none, "flop_ratio") == 1.0);
  CHECK(scalar(none, "parameter_ratio") == 1.0);
  CHECK(scalar(none, "extra_parameters") == 0.0);

  Case copy("copy_paste");
  const float* weights = static_cast<const float*>(copy.model->parameters().flat_data());
  const std::vector<float> before(weights, weights + copy.model->parameters().flat_size());
  const MeasureOutput out = copy.measure(overhead_measure);
  CHECK(std::equal(before.begin(), before.end(), weights));
  CHECK(scalar(out, "extra_parameters") == 2 * 8 * 8 + 2 * 8 + 1);
  // Per token: a row of the output matrix (2 D), two projections (4 D²), (T + 1)/2 scores (2 D each).
  const double extra = 2 * 8 + 4 * 8 * 8 + 8 * 17;
  CHECK((scalar(out, "flop_ratio") - 1) * plain.model->flops_per_token(16) == Approx(extra).epsilon(1e-9));
  CHECK(scalar(out, "time_ratio") > 0);
  CHECK(out.arrays.at("step_seconds").shape == std::vector<int64_t>{2});
}
