// neural_cache: theta and window tuned on a grid, the cache's weight at its optimum, all on the validation
// split.
#include "experiments/measures/neural_cache.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace copylab {

CacheScores cache_scores(const ScoredSplit& split, int64_t sequence, int64_t first, int64_t end,
                         int64_t window) {
  const int64_t key = window > 0 ? std::max<int64_t>(0, first - window) : 0;
  const Matrix h = split.states(sequence, key, end);
  return {first, key, h.bottomRows(end - first) * h.transpose()};
}

std::vector<double> cache_probabilities(const ScoredSplit& split, int64_t sequence, const CacheScores& scores,
                                        double theta, int64_t window) {
  const int64_t start = sequence * split.length, rows = scores.products.rows();
  const auto score = [&](int64_t t, int64_t i) {
    return theta * scores.products(t - scores.first_row, i - scores.first_key);
  };
  std::vector<double> out(rows, -1.0);
  for (int64_t t = scores.first_row; t < scores.first_row + rows; ++t) {
    if (!split.labelled(start + t)) continue;
    const auto in_reach = [&](int64_t i) { return split.same_document(start + i, start + t); };
    const int64_t first = window > 0 ? std::max<int64_t>(0, t - window) : 0;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t i = first; i < t; ++i)
      if (in_reach(i)) top = std::max(top, score(t, i));
    double all = 0, right = 0;
    for (int64_t i = first; i < t; ++i) {
      if (!in_reach(i)) continue;
      const double e = std::exp(score(t, i) - top);
      all += e;
      if (split.tokens[start + i + 1] == split.targets[start + t]) right += e;
    }
    if (all > 0) out[t - scores.first_row] = right / all;
  }
  return out;
}

namespace {

struct Tuned {
  double theta = 0, weight = 0, loss = std::numeric_limits<double>::infinity();
  int64_t window = 0;
};

std::vector<Field> fields() {
  return {
      {"measure.neural_cache.theta_min", 0.003, "smallest theta tried", 1e-9, 1e9},
      {"measure.neural_cache.theta_max", 10.0, "largest theta tried", 1e-9, 1e9},
      {"measure.neural_cache.thetas", int64_t{15}, "values of theta, log-spaced", 1, 1000},
      {"measure.neural_cache.windows", std::vector<int64_t>{0},
       "past positions tried; 0 = the whole context, of a task without lanes"},
  };
}

// The cache's probabilities for a split (S, T), for each pair of theta and window.
using Grid = std::vector<std::vector<double>>;
Grid over_grid(const ScoredSplit& split, const std::vector<Tuned>& settings) {
  Grid out(settings.size());
  int64_t widest = settings.front().window;
  for (const Tuned& setting : settings)
    widest = widest == 0 || setting.window == 0 ? 0 : std::max(widest, setting.window);
  constexpr int64_t kRows = 256;  // of scores alive at once
  for (int64_t s = 0; s < split.sequences; ++s)
    for (int64_t first = 0; first < split.length; first += kRows) {
      const CacheScores scores = cache_scores(split, s, first, std::min(split.length, first + kRows), widest);
      for (size_t i = 0; i < settings.size(); ++i) {
        const auto p = cache_probabilities(split, s, scores, settings[i].theta, settings[i].window);
        out[i].insert(out[i].end(), p.begin(), p.end());
      }
    }
  return out;
}

// (S, T) -log p of the mixture; positions without a cache keep the model's.
std::vector<double> mixed_losses(const ScoredSplit& split, const std::vector<double>& cache, double weight) {
  std::vector<double> out = split.nll;
  for (size_t i = 0; i < out.size(); ++i)
    if (cache[i] >= 0) out[i] = -std::log((1 - weight) * std::exp(-split.nll[i]) + weight * cache[i]);
  return out;
}

// Checks what a single field cannot say.
void check(const MeasureInput& in) {
  const std::vector<int64_t>& windows = in.settings.integers("measure.neural_cache.windows");
  expect_config(!windows.empty() && *std::min_element(windows.begin(), windows.end()) >= 0,
                "measure.neural_cache.windows: numbers of at least 0 expected");
  expect_config(
      in.task.lanes() == 0 || *std::min_element(windows.begin(), windows.end()) > 0,
      "measure.neural_cache.windows: 0 is all of the past, which has no end in a stream: numbers expected");
  const double low = in.settings.real("measure.neural_cache.theta_min");
  const double high = in.settings.real("measure.neural_cache.theta_max");
  expect_config(low <= high, "measure.neural_cache.theta_min: at most theta_max = {} expected: got {}", high,
                low);
}

void run(const MeasureInput& in, MeasureOutput& out) {
  check(in);
  const std::vector<int64_t>& windows = in.settings.integers("measure.neural_cache.windows");
  const int64_t count = in.settings.integer("measure.neural_cache.thetas");
  const double low = in.settings.real("measure.neural_cache.theta_min");
  const double high = in.settings.real("measure.neural_cache.theta_max");
  std::vector<double> thetas;
  for (int64_t i = 0; i < count; ++i)
    thetas.push_back(
        low * std::pow(high / low, count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0));

  const auto kept = score_split(in, Split::valid);
  const ScoredSplit& valid = *kept;
  std::vector<Tuned> grid;
  for (const int64_t window : windows)
    for (const double theta : thetas) {
      Tuned setting;
      setting.theta = theta;
      setting.window = window;
      grid.push_back(setting);
    }
  const Grid cache = over_grid(valid, grid);
  Tuned best;
  std::vector<double> losses, weights;
  for (size_t g = 0; g < grid.size(); ++g) {
    std::vector<double> p, q;
    for (size_t i = 0; i < valid.nll.size(); ++i) {
      if (cache[g][i] < 0) continue;
      p.push_back(std::exp(-valid.nll[i]));
      q.push_back(cache[g][i]);
    }
    grid[g].weight = best_mixture_weight(p, q);
    double sum = 0, labels = 0;
    const std::vector<double> mixed = mixed_losses(valid, cache[g], grid[g].weight);
    for (size_t i = 0; i < mixed.size(); ++i) {
      sum += mixed[i];
      labels += valid.labelled(static_cast<int64_t>(i));
    }
    grid[g].loss = sum / labels;
    losses.push_back(grid[g].loss);
    weights.push_back(grid[g].weight);
    if (grid[g].loss < best.loss) best = grid[g];
  }

  const auto kept_test = score_split(in, Split::test);
  const ScoredSplit& test = *kept_test;
  report_losses(test, mixed_losses(test, over_grid(test, {best})[0], best.weight), in.task, out);
  out.scalar("theta", best.theta, "sharpness of the cache, tuned on the validation split");
  out.scalar("lambda", best.weight, "weight of the cache, tuned on the validation split");
  out.scalar("window", static_cast<double>(best.window),
             "past positions that the cache holds, tuned; 0 = all");
  const int64_t rows = static_cast<int64_t>(windows.size());
  out.coordinate("window_tried", std::vector<double>(windows.begin(), windows.end()));
  out.coordinate("theta_tried", thetas);
  out.array("valid_loss", losses, {rows, count}, {"window_tried", "theta_tried"},
            "validation loss at the best weight, nats");
  out.array("valid_lambda", weights, {rows, count}, {"window_tried", "theta_tried"}, "that weight");
}

// Besides the passes, for each of the T²/2 pairs of a validation sequence, or of the pairs within the window
// of a stream, a product of states, and an exponential at each point of the grid.
double plan(const MeasureInput& in) {
  check(in);
  const double length = static_cast<double>(in.task.length());
  const std::vector<int64_t>& windows = in.settings.integers("measure.neural_cache.windows");
  const double reach = in.task.lanes() > 0
                           ? static_cast<double>(*std::max_element(windows.begin(), windows.end()))
                           : length / 2;
  const double pairs = static_cast<double>(in.settings.integer("eval.sequences")) * length * reach;
  const double grid = static_cast<double>(in.settings.integer("measure.neural_cache.thetas") *
                                          static_cast<int64_t>(windows.size()));
  return plan_splits(in) + kDouble * pairs * (4 * static_cast<double>(in.model.dim()) + 20 * grid);
}

}  // namespace

const MeasureEntry neural_cache_measure = {
    "neural_cache",
    "loss with a cache of past hidden states mixed in, tuned on the validation split (X1, X2)", fields, run,
    plan};

}  // namespace copylab
