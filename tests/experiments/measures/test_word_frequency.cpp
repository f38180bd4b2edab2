// word_frequency against cases worked by hand and brute force.
#include "experiments/measures/word_frequency.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/check/check_settings.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/train/train_plan.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

constexpr int64_t kWords = 6;

ScoredSplit random_split(int64_t sequences, int64_t length, bool documents) {
  ScoredSplit s;
  s.sequences = sequences;
  s.length = length;
  const Random random(8, "test_word_frequency");
  const int64_t n = sequences * length;
  for (int64_t i = 0; i < n; ++i) {
    s.tokens.push_back(static_cast<int32_t>(random.below(i, kWords)));
    s.targets.push_back(i % 7 == 3 ? -1 : static_cast<int32_t>(random.below(n + i, kWords + 2)));
    s.nll.push_back(s.targets[i] < 0 ? 0.0 : 3.0 * random.uniform(2 * n + i));
    if (documents) s.segment.push_back(static_cast<int32_t>(i % length / 5));
  }
  return s;
}

}  // namespace

TEST_CASE("frequency buckets share the labels of a word at a border", "[word_frequency]") {
  ScoredSplit s;
  s.sequences = 1;
  s.length = 7;
  s.tokens.assign(7, 0);
  // Word 2 was trained on most, then 0 and 1 equally often, then 3. Six labels in three parts of two.
  s.targets = {0, 2, 0, -1, 3, 0, 1};
  s.nll = {1.0, 5.0, 2.0, 0.0, 7.0, 6.0, 4.0};
  const std::vector<Bucket> parts = frequency_buckets(s, {4, 4, 9, 0}, 3);
  REQUIRE(parts.size() == 3);
  // Word 0 has three labels of mean loss 3: one in the first part, two in the second.
  CHECK(parts[0].loss == Approx((5.0 + 3.0) / 2));
  CHECK(parts[1].loss == Approx(3.0));
  CHECK(parts[2].loss == Approx((4.0 + 7.0) / 2));
  CHECK(parts[0].count == Approx((9.0 + 4.0) / 2));
  CHECK(parts[1].count == Approx(4.0));
  CHECK(parts[2].count == Approx((4.0 + 0.0) / 2));
  // Two parts and a half of a label each: all of them are still shared out.
  double sum = 0;
  for (const Bucket& part : frequency_buckets(s, {4, 4, 9, 0}, 4)) sum += part.loss / 4;
  CHECK(sum == Approx(25.0 / 6));
}

TEST_CASE("frequency buckets are slices of the sorted labels", "[word_frequency]") {
  const ScoredSplit s = random_split(5, 28, false);
  const std::vector<int64_t> counts = {3, 8, 0, 3, 5, 1, 0, 0};
  std::vector<std::pair<int64_t, int32_t>> sorted;  // minus the count, word
  std::map<int32_t, std::pair<double, double>> words;
  for (size_t i = 0; i < s.targets.size(); ++i) {
    if (s.targets[i] < 0) continue;
    sorted.emplace_back(-counts[s.targets[i]], s.targets[i]);
    words[s.targets[i]].first += s.nll[i];
    words[s.targets[i]].second += 1;
  }
  std::sort(sorted.begin(), sorted.end());
  REQUIRE(sorted.size() == 120);
  const std::vector<Bucket> parts = frequency_buckets(s, counts, 10);
  for (size_t b = 0; b < 10; ++b) {
    double loss = 0, count = 0;
    for (size_t i = 12 * b; i < 12 * (b + 1); ++i) {
      const auto& [sum, labels] = words.at(sorted[i].second);
      loss += sum / labels / 12;
      count -= static_cast<double>(sorted[i].first) / 12;
    }
    CHECK(parts[b].loss == Approx(loss).epsilon(1e-12));
    CHECK(parts[b].count == Approx(count).epsilon(1e-12));
  }
}

TEST_CASE("where a target was last read, from the definition", "[word_frequency]") {
  for (const bool documents : {false, true})
    for (const int64_t window : {1, 3, 100}) {
      const ScoredSplit s = random_split(4, 23, documents);
      const std::vector<Reach> reach = reach_of_targets(s, window);
      std::set<Reach> met;
      for (int64_t sequence = 0; sequence < 4; ++sequence)
        for (int64_t t = 0; t < 23; ++t) {
          const int64_t i = sequence * 23 + t;
          Reach expected = Reach::never;
          for (int64_t d = 1; d <= t + 1 && s.targets[i] >= 0; ++d) {
            if (!s.same_document(i, i + 1 - d) || s.tokens[i + 1 - d] != s.targets[i]) continue;
            expected = d <= window ? Reach::near : Reach::far;
            break;
          }
          CHECK(reach[i] == expected);
          met.insert(expected);
        }
      CHECK(met.size() == (window == 100 ? 2 : 3));
    }
}

TEST_CASE("segments are runs of labels within a sequence", "[word_frequency]") {
  const ScoredSplit s = random_split(3, 20, false);
  const std::vector<int64_t> counts = {3, 8, 0, 3, 5, 1, 0, 0};
  const std::vector<Segment> segments = segments_of(s, counts, 1, 4);
  size_t next = 0;
  for (int64_t sequence = 0; sequence < 3; ++sequence) {
    std::vector<int64_t> labels;
    for (int64_t i = 20 * sequence; i < 20 * (sequence + 1); ++i)
      if (s.labelled(i)) labels.push_back(i);
    for (size_t first = 0; first + 4 <= labels.size(); first += 4, ++next) {
      REQUIRE(next < segments.size());
      double loss = 0, rare = 0;
      for (size_t i = first; i < first + 4; ++i) {
        loss += s.nll[labels[i]] / 4;
        rare += counts[s.targets[labels[i]]] <= 1 ? 0.25 : 0;
      }
      CHECK(segments[next].loss == Approx(loss).epsilon(1e-12));
      CHECK(segments[next].rare == Approx(rare).epsilon(1e-12));
    }
  }
  CHECK(next == segments.size());
}

TEST_CASE("word_frequency of a run: counts are those of its own batches, parts make up the whole",
          "[word_frequency][measures]") {
  std::map<std::string, double> far;  // share of labels
  for (const std::string lanes : {"0", "3"}) {
    const std::string rows = lanes == "0" ? "5" : lanes;
    const Settings settings = check_settings(
        {"run.measures=word_frequency", "task.name=text", "task.corpus=tinyshakespeare", "task.level=word",
         "task.vocab=300", "task.length=20", "task.lanes=" + lanes, "train.batch=" + rows,
         "train.budget=steps", "train.steps=7", "train.accumulate=1", "eval.test_sequences=30", "model.dim=8",
         "model.heads=2", "model.kv_heads=2", "model.layers=1", "measure.word_frequency.rare=2",
         "measure.word_frequency.window=12", "measure.word_frequency.segment=10"});
    const auto task = find_task("text").make(settings);
    const auto model = make_model(settings, *task, cpu_backend());
    model->allocate();
    model->initialise(4);
    const MeasureInput in{*model, nullptr, *task, settings, cpu_backend(), 4};
    std::vector<int64_t> counts(300, 0);
    for (int64_t step = 0; step < 7; ++step)
      for (const int32_t target : task->batch(Split::train, 4, step, std::stoll(rows)).targets)
        if (target >= 0) ++counts[target];
    CHECK(training_counts(in) == counts);

    MeasureOutput out;
    word_frequency_measure.run(in, out);
    const auto values = [&](const std::string& name) { return out.arrays.at(name).values; };
    const auto split = score_split(in, Split::test);
    double loss = 0, labels = 0, rare = 0;
    for (size_t i = 0; i < split->targets.size(); ++i) {
      if (split->targets[i] < 0) continue;
      loss += split->nll[i];
      labels += 1;
      rare += counts[split->targets[i]] <= 2;
    }
    double parts = 0;
    for (const double x : values("loss_by_bucket")) parts += x / 10;
    CHECK(parts == Approx(loss / labels).epsilon(1e-10));
    CHECK(values("perplexity")[0] == Approx(std::exp(loss / labels)).epsilon(1e-10));
    CHECK(values("rare_share")[0] == Approx(rare / labels).epsilon(1e-12));
    double by_reach = 0, counted = 0;
    for (int r = 0; r < 3; ++r) {
      counted += values("labels_by_reach")[r];
      by_reach += values("labels_by_reach")[r] * values("loss_by_reach")[r];
    }
    CHECK(counted == labels);
    CHECK(by_reach == Approx(loss).epsilon(1e-10));
    CHECK(values("count_by_bucket").front() > values("count_by_bucket").back());
    const std::vector<double> rates = values("rare_by_segment");
    CHECK(std::is_sorted(rates.begin(), rates.end()));
    far[lanes] = values("labels_by_reach")[1] / labels;
  }
  // Only a stream remembers words beyond its sequences of 20 tokens.
  CHECK(far.at("3") > far.at("0"));
}
