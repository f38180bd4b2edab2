// The self-check of tasks behind `copylab check tasks`: solver against ceiling, balance, purity, duplicates.
#include "experiments/check/check_tasks.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "tasks/fingerprint.h"

namespace copylab {
namespace {

constexpr int64_t kSequences = 4096;
constexpr uint64_t kSeed = 1;
constexpr double kLimit = 6.0;  // standard deviations: chance crosses it once in 10^9 checks

// Wilson and Hilferty 1931: the cube root of chi²/df is nearly normal.
double normal_score(double chi2, double df) {
  const double spread = 2.0 / (9.0 * df);
  return df > 0 ? (std::cbrt(chi2 / df) - (1.0 - spread)) / std::sqrt(spread) : 0.0;
}

// One label of each sequence, since labels within a sequence may depend on each other; sequence n gives its
// n-th label, cyclically.
std::vector<int32_t> independent_labels(const Batch& batch) {
  std::vector<int32_t> labels, of_row;
  for (int64_t row = 0; row < batch.rows; ++row) {
    of_row.clear();
    for (int64_t t = 0; t < batch.length; ++t)
      if (const int32_t y = batch.targets[row * batch.length + t]; y >= 0) of_row.push_back(y);
    if (!of_row.empty()) labels.push_back(of_row[row % of_row.size()]);
  }
  return labels;
}

struct Histogram {
  int64_t low, width, bins;
  std::vector<double> count(const std::vector<int32_t>& labels) const {
    std::vector<double> counts(bins, 0.0);
    for (const int32_t y : labels) counts[std::clamp<int64_t>((y - low) / width, 0, bins - 1)] += 1.0;
    return counts;
  }
};

// At most 64 bins of equally many ids over the range of the labels; the last bin may hold fewer ids.
Histogram histogram_over(const std::vector<int32_t>& labels) {
  const auto [low, high] = std::minmax_element(labels.begin(), labels.end());
  const int64_t ids = *high - *low + 1, width = (ids + 63) / 64;
  return {*low, width, (ids + width - 1) / width};
}

double score_against_uniform(const std::vector<int32_t>& labels) {
  const Histogram h = histogram_over(labels);
  const std::vector<double> counts = h.count(labels);
  const int64_t ids = *std::max_element(labels.begin(), labels.end()) - h.low + 1;
  double chi2 = 0;
  for (int64_t i = 0; i < h.bins; ++i) {
    const double share = static_cast<double>(std::min(h.width, ids - i * h.width)) / ids;
    const double expected = share * labels.size();
    chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return normal_score(chi2, h.bins - 1.0);
}

double score_between(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const Histogram h = histogram_over(a);
  const std::vector<double> x = h.count(a), y = h.count(b);
  const double nx = a.size(), ny = b.size();
  double chi2 = 0, used = 0;
  for (int64_t i = 0; i < h.bins; ++i) {
    if (x[i] + y[i] == 0) continue;
    const double d = x[i] * std::sqrt(ny / nx) - y[i] * std::sqrt(nx / ny);
    chi2 += d * d / (x[i] + y[i]);
    used += 1;
  }
  return normal_score(chi2, used - 1);
}

std::vector<int32_t> row_of(const Batch& batch, int64_t row) {
  const auto begin = batch.tokens.begin() + row * batch.length;
  std::vector<int32_t> sequence(begin, begin + batch.length);
  sequence.insert(sequence.end(), batch.targets.begin() + row * batch.length,
                  batch.targets.begin() + (row + 1) * batch.length);
  return sequence;
}

std::string malformed(const Task& task, const Batch& batch) {
  const size_t cells = static_cast<size_t>(batch.rows * batch.length);
  const auto outside = [](const std::vector<int32_t>& v, int64_t low, int64_t high) {
    return std::any_of(v.begin(), v.end(), [&](int32_t x) { return x < low || x >= high; });
  };
  const auto optional = [&](const auto& v) { return v.empty() || v.size() == cells; };
  if (batch.length != task.length() || batch.tokens.size() != cells || batch.targets.size() != cells ||
      !optional(batch.segment) || !optional(batch.slice) || !optional(batch.bytes) || !optional(batch.meta))
    return "sizes disagree";
  if (outside(batch.tokens, 0, task.vocab())) return "token out of range";
  if (outside(batch.targets, -1, task.vocab())) return "target out of range";
  if (outside(batch.slice, 0, static_cast<int64_t>(task.slices().size()))) return "slice out of range";
  return {};
}

std::string text_of(const Value& value) {
  std::ostringstream out;
  std::visit(
      [&](const auto& v) {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<int64_t>>)
          for (const int64_t x : v) out << (out.tellp() > 0 ? "," : "") << x;
        else
          out << v;
      },
      value);
  return out.str();
}

}  // namespace

TaskCheck check_task(const Task& task) {
  TaskCheck c;
  c.vocab = task.vocab();
  c.length = task.length();
  c.ceiling = task.ceiling();
  c.chance = task.chance();

  const int64_t rows = task.lanes() > 0 ? task.lanes() : kSequences;
  const Batch train = task.batch(Split::train, kSeed, 0, rows);
  const Batch test = task.batch(Split::test, kSeed, 0, rows);
  c.hash = fingerprint(task, Split::test, kSeed, task.lanes() > 0 ? rows : 256);
  c.violation = malformed(task, test);
  if (!c.violation.empty()) return c;

  // Purity: asked again, in another order, a batch is the same; with another seed or index it is not.
  const Batch next = task.batch(Split::test, kSeed, 1, rows);
  if (fingerprint(task.batch(Split::test, kSeed, 0, rows)) != fingerprint(test))
    c.violation = "batch is not a pure function";
  const auto again = [&](Split split) { return task.batch(split, kSeed + 1, 0, rows).tokens; };
  if (next.tokens == test.tokens || again(Split::train) == train.tokens ||
      (task.generated() && again(Split::test) == test.tokens))
    c.violation = "batch ignores index or seed";
  if (!task.generated() && again(Split::test) != test.tokens) c.violation = "a test text depends on the seed";
  if (train.tokens == test.tokens) c.violation = "splits share a random stream";

  // Solver against ceiling: mean and standard error of right - ceiling · labels over sequences.
  const std::vector<int32_t> answers = task.solve(test);
  double labels = 0, right = 0, unknown = 0, wrong = 0, sum = 0, squares = 0;
  for (int64_t row = 0; row < test.rows; ++row) {
    double row_labels = 0, row_right = 0, row_unknown = 0;
    for (int64_t i = row * test.length; i < (row + 1) * test.length; ++i) {
      if (test.targets[i] < 0) continue;
      row_labels += 1;
      row_right += answers[i] == test.targets[i];
      row_unknown += answers[i] < 0;
      wrong += answers[i] >= 0 && answers[i] != test.targets[i];
    }
    const double residual = row_right + task.guess() * row_unknown - c.ceiling * row_labels;
    sum += residual;
    squares += residual * residual;
    labels += row_labels;
    right += row_right;
    unknown += row_unknown;
  }
  if (labels == 0) {
    c.violation = "no labels";
    return c;
  }
  const std::vector<int32_t> train_labels = independent_labels(train), test_labels = independent_labels(test);
  c.balance = score_against_uniform(train_labels);
  c.drift = score_between(train_labels, test_labels);

  std::set<std::vector<int32_t>> seen;
  for (int64_t row = 0; row < train.rows; ++row) seen.insert(row_of(train, row));
  for (int64_t row = 0; row < test.rows; ++row)
    c.duplicates += static_cast<double>(seen.count(row_of(test, row))) / test.rows;

  c.solver = (right + task.guess() * unknown) / labels;
  if (!task.generated()) {
    // Texts differ from each other, and what is possible is not known: to claim either would be wrong.
    if (!std::isnan(c.ceiling) || unknown < labels) c.violation = "a text has no solver and no ceiling";
    c.solver = std::nan("");
    return c;
  }
  if (!(c.ceiling >= 0 && c.ceiling <= 1)) c.violation = "the ceiling is no accuracy";
  const double mean = sum / test.rows;
  const double error = std::sqrt(std::max(0.0, squares / test.rows - mean * mean) / test.rows);
  // The best guess of an unknowable target may be a little better than chance over the whole vocabulary.
  const double allowed = kLimit * error + c.chance * unknown / test.rows + 1e-9;
  if (std::abs(mean) > allowed) c.violation = "solver and ceiling differ";
  if (wrong > 0) c.violation = "solver is wrong where it claims to know";

  if (c.drift > kLimit) c.violation = "train and test labels differ in distribution";
  return c;
}

int check_tasks(std::ostream& out) {
  out << fmt::format("{:<16} {:<33} {:>6} {:>4} {:>8} {:>8} {:>8} {:>7} {:>6} {:>6}  {:<16} {}\n", "task",
                     "variant", "V", "T", "ceiling", "solver", "chance", "balance", "drift", "dupl.",
                     "hash of test", "verdict");
  bool failed = false;
  for (const TaskEntry& entry : task_registry()) {
    auto variants = entry.variants();
    variants.insert(variants.begin(), {{}});
    for (const auto& changes : variants) {
      TaskCheck c = check_task(*entry.make(task_settings(entry, changes)));
      c.task = entry.name;
      for (const auto& [path, value] : changes)
        c.variant += (c.variant.empty() ? "" : " ") + path.substr(path.find('.') + 1) + "=" + text_of(value);
      if (changes.empty()) c.variant = "defaults";
      failed |= !c.violation.empty();
      out << fmt::format(
          "{:<16} {:<33} {:>6} {:>4} {:>8.4f} {:>8.4f} {:>8.1e} {:>7.2f} {:>6.2f} {:>5.1f}%  {:016x} {}\n",
          c.task, c.variant, c.vocab, c.length, c.ceiling, c.solver, c.chance, c.balance, c.drift,
          100 * c.duplicates, c.hash, c.violation.empty() ? "ok" : "VIOLATION: " + c.violation);
    }
  }
  out << "balance, drift: chi² of labels against uniform and of train against test, in standard deviations\n"
         "dupl.: test sequences that also occur among as many training sequences (high where V is small)\n";
  return failed ? 3 : 0;
}

}  // namespace copylab
