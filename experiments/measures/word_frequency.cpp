// word_frequency: training counts from the run's own batches, losses from one pass over the test split.
#include "experiments/measures/word_frequency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/train/train_plan.h"

namespace copylab {

std::vector<int64_t> training_counts(const MeasureInput& in) {
  std::vector<int64_t> counts(in.task.vocab(), 0);
  const TrainPlan plan = train_plan(in.settings, in.task);
  for (int64_t i = 0; i < plan.steps * plan.accumulate; ++i)
    for (const int32_t target : in.task.batch(Split::train, in.seed, i, plan.batch).targets)
      if (target >= 0) ++counts[target];
  return counts;
}

std::vector<Bucket> frequency_buckets(const ScoredSplit& split, const std::vector<int64_t>& counts,
                                      int64_t buckets) {
  std::vector<double> labels(counts.size(), 0), loss(counts.size(), 0);
  double all = 0;
  for (size_t i = 0; i < split.targets.size(); ++i) {
    if (!split.labelled(static_cast<int64_t>(i))) continue;
    labels[split.targets[i]] += 1;
    loss[split.targets[i]] += split.nll[i];
    all += 1;
  }
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return counts[a] > counts[b]; });

  const double size = all / static_cast<double>(buckets);
  std::vector<Bucket> out(buckets);
  double begin = 0;  // labels of the words before
  for (const size_t word : order) {
    if (labels[word] == 0) continue;
    const double end = begin + labels[word];
    for (int64_t b = 0; b < buckets; ++b) {
      const double low = static_cast<double>(b) * size, high = low + size;
      const double shared = std::min(high, end) - std::max(low, begin);
      if (shared <= 0) continue;
      out[b].loss += shared / size * loss[word] / labels[word];
      out[b].count += shared / size * static_cast<double>(counts[word]);
    }
    begin = end;
  }
  return out;
}

std::vector<Reach> reach_of_targets(const ScoredSplit& split, int64_t window) {
  std::vector<Reach> out(split.targets.size(), Reach::never);
  const int32_t largest =
      split.tokens.empty() ? 0 : *std::max_element(split.tokens.begin(), split.tokens.end());
  std::vector<int64_t> last(static_cast<size_t>(largest) + 1, -1);  // index at which each id was last read
  for (int64_t s = 0; s < split.sequences; ++s) {
    const int64_t start = s * split.length;
    int64_t document = start;  // where it began
    for (int64_t i = start; i < start + split.length; ++i) {
      if (i > start && !split.same_document(i, i - 1)) document = i;
      last[split.tokens[i]] = i;
      const int32_t target = split.targets[i];
      if (target < 0 || target > largest || last[target] < document) continue;
      out[i] = i + 1 - last[target] <= window ? Reach::near : Reach::far;
    }
  }
  return out;
}

std::vector<Segment> segments_of(const ScoredSplit& split, const std::vector<int64_t>& counts, int64_t rare,
                                 int64_t size) {
  std::vector<Segment> out;
  const double whole = static_cast<double>(size);
  for (int64_t s = 0; s < split.sequences; ++s) {
    Segment segment;
    int64_t labels = 0;
    for (int64_t i = s * split.length; i < (s + 1) * split.length; ++i) {
      if (!split.labelled(i)) continue;
      segment.loss += split.nll[i] / whole;
      segment.rare += counts[split.targets[i]] <= rare ? 1 / whole : 0;
      if (++labels < size) continue;
      out.push_back(segment);
      segment = {};
      labels = 0;
    }
  }
  return out;
}

namespace {

constexpr int kReaches = 3;

std::vector<Field> fields() {
  return {
      {"measure.word_frequency.buckets", int64_t{10},
       "parts of equal size that the test targets are cut into", 2, 1000},
      {"measure.word_frequency.rare", int64_t{5}, "a word is rare up to this training count", 0, 1 << 30},
      {"measure.word_frequency.window", int64_t{100},
       "a target is near if it is among this many tokens read last", 1, 1 << 30},
      {"measure.word_frequency.segment", int64_t{50}, "targets of a segment", 1, 1 << 30},
      {"measure.word_frequency.segment_groups", int64_t{4},
       "groups of segments, by their share of rare words, of equal size", 2, 1000},
  };
}

// Sums over labels, of rare words or of all, by where the target was last read.
struct Sums {
  double labels[kReaches] = {}, loss[kReaches] = {};
  double all_labels() const { return std::accumulate(labels, labels + kReaches, 0.0); }
  double all_loss() const { return std::accumulate(loss, loss + kReaches, 0.0); }
};

void report_reach(const Sums& sums, const std::string& name, const std::string& doc, MeasureOutput& out) {
  const std::vector<std::string> reaches = {"near", "far", "never"};
  std::vector<double> losses, labels(sums.labels, sums.labels + kReaches);
  for (int r = 0; r < kReaches; ++r) {
    losses.push_back(sums.labels[r] > 0 ? sums.loss[r] / sums.labels[r] : std::nan(""));
    out.scalar(name + "loss_" + reaches[r], losses[r],
               "mean -log p of " + doc + " last read there, nats; NaN: none");
  }
  out.label("reach", reaches);
  out.array(name + "loss_by_reach", losses, {kReaches}, {"reach"},
            "mean -log p of " + doc +
                " last read within measure.word_frequency.window tokens, farther back, or never, nats; NaN: "
                "none");
  out.array(name + "labels_by_reach", labels, {kReaches}, {"reach"}, "how many there are");
}

void report_segments(const std::vector<Segment>& segments, int64_t groups, MeasureOutput& out) {
  std::vector<size_t> order(segments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return segments[a].rare < segments[b].rare; });
  std::vector<double> losses, rates;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t n = static_cast<int64_t>(order.size()), from = g * n / groups, to = (g + 1) * n / groups;
    double loss = 0, rate = 0;
    for (int64_t i = from; i < to; ++i) {
      loss += segments[order[i]].loss;
      rate += segments[order[i]].rare;
    }
    losses.push_back(to > from ? loss / static_cast<double>(to - from) : std::nan(""));
    rates.push_back(to > from ? rate / static_cast<double>(to - from) : std::nan(""));
  }
  out.array(
      "loss_by_segment", losses, {groups}, {"segment_group"},
      "mean -log p within groups of segments of a growing share of rare words, nats; NaN: fewer segments "
      "than groups");
  out.array("rare_by_segment", rates, {groups}, {"segment_group"},
            "share of rare words in each group; NaN: none");
  out.scalar("segment_contrast", losses.back() - losses.front(),
             "loss where rare words are most frequent less where they are least, nats; NaN: no such groups");
}

// Least-squares slope of y over 0, 1, ….
double slope(const std::vector<double>& y) {
  const double n = static_cast<double>(y.size()), middle = (n - 1) / 2;
  double above = 0, below = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    above += x * y[i];
    below += x * x;
  }
  return above / below;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const int64_t buckets = in.settings.integer("measure.word_frequency.buckets");
  const int64_t rare = in.settings.integer("measure.word_frequency.rare");
  const auto kept = score_split(in, Split::test);
  const ScoredSplit& split = *kept;
  const std::vector<int64_t> counts = training_counts(in);

  std::vector<double> losses, mean_counts;
  for (const Bucket& bucket : frequency_buckets(split, counts, buckets)) {
    losses.push_back(bucket.loss);
    mean_counts.push_back(bucket.count);
  }
  out.array("loss_by_bucket", losses, {buckets}, {"bucket"},
            "mean -log p of test targets in parts of equal size, the most frequent words first, nats");
  out.array("count_by_bucket", mean_counts, {buckets}, {"bucket"},
            "mean training count of these targets' words");
  out.scalar("loss_trend", slope(losses),
             "slope of the loss over the number of the bucket, nats; a difference between two models is that "
             "of their gain");

  const std::vector<Reach> reach =
      reach_of_targets(split, in.settings.integer("measure.word_frequency.window"));
  Sums all, of_rare;
  for (size_t i = 0; i < reach.size(); ++i) {
    if (!split.labelled(static_cast<int64_t>(i))) continue;
    const auto add = [&](Sums& sums) {
      sums.labels[static_cast<int>(reach[i])] += 1;
      sums.loss[static_cast<int>(reach[i])] += split.nll[i];
    };
    add(all);
    if (counts[split.targets[i]] <= rare) add(of_rare);
  }
  report_reach(all, "", "targets", out);
  report_reach(of_rare, "rare_", "rare targets", out);
  out.scalar("rare_share", of_rare.all_labels() / all.all_labels(), "share of targets that are rare words");
  out.scalar("rare_loss", of_rare.all_labels() > 0 ? of_rare.all_loss() / of_rare.all_labels() : std::nan(""),
             "mean -log p of rare targets, nats; NaN: none");
  out.scalar("perplexity", std::exp(all.all_loss() / all.all_labels()), "exp of the loss of all targets");
  report_segments(segments_of(split, counts, rare, in.settings.integer("measure.word_frequency.segment")),
                  in.settings.integer("measure.word_frequency.segment_groups"), out);
}

double plan(const MeasureInput& in) {
  return in.pass_flops(static_cast<double>(in.settings.integer("eval.test_sequences")));
}

}  // namespace

const MeasureEntry word_frequency_measure = {
    "word_frequency",
    "loss by training frequency, and of rare words by where they were last read (P5, P7-P9)", fields, run,
    plan};

}  // namespace copylab
