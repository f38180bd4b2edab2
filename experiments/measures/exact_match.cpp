// exact_match: p' = (1-w)·p + w·[target = what came after the match], w by length and distance of the match.
#include "experiments/measures/exact_match.h"

#include <algorithm>
#include <cmath>

namespace copylab {

std::vector<SuffixMatch> suffix_matches(const ScoredSplit& split, int64_t sequence) {
  const int64_t length = split.length, start = sequence * length;
  const int32_t* x = split.tokens.data() + start;
  std::vector<SuffixMatch> out(length);
  std::vector<int64_t> run(length, 0);  // run[i]: tokens that agree up to i and up to t
  for (int64_t t = 0; t < length; ++t)
    for (int64_t i = t - 1; i >= 0;
         --i) {  // downwards: run[i - 1] is still that of t - 1, and recent ones win ties
      run[i] = x[i] == x[t] && split.same_document(start + i, start + t) ? 1 + (i > 0 ? run[i - 1] : 0) : 0;
      if (run[i] > out[t].length) out[t] = {run[i], t - i, x[i + 1]};
    }
  return out;
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.exact_match.lengths", std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 16},
       "least length of a match in each bucket, ascending from 1"},
      {"measure.exact_match.distances", std::vector<int64_t>{1, 9, 33, 129, 513},
       "least distance of a match in each bucket, ascending from 1"},
  };
}

const std::vector<int64_t>& edges(const MeasureInput& in, const std::string& name) {
  const std::vector<int64_t>& list = in.settings.integers("measure.exact_match." + name);
  expect_config(!list.empty() && list.front() == 1 && std::is_sorted(list.begin(), list.end()),
                "measure.exact_match.{}: lengths ascending from 1 expected", name);
  return list;
}

int64_t place(const std::vector<int64_t>& edges, int64_t value) {
  return std::upper_bound(edges.begin(), edges.end(), value) - edges.begin() - 1;
}

// A split's matches (S, T): their bucket, or -1 without match or label, and whether the target came after.
struct Matches {
  std::vector<int64_t> bucket;
  std::vector<bool> right;
};

Matches find_matches(const ScoredSplit& split, const std::vector<int64_t>& lengths,
                     const std::vector<int64_t>& distances) {
  Matches out;
  for (int64_t s = 0; s < split.sequences; ++s) {
    const std::vector<SuffixMatch> found = suffix_matches(split, s);
    for (int64_t t = 0; t < split.length; ++t) {
      const SuffixMatch& m = found[t];
      const int64_t i = s * split.length + t;
      const bool used = m.length > 0 && split.labelled(i);
      out.bucket.push_back(used ? place(lengths, m.length) * static_cast<int64_t>(distances.size()) +
                                      place(distances, m.distance)
                                : -1);
      out.right.push_back(used && m.next == split.targets[i]);
    }
  }
  return out;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const std::vector<int64_t>&lengths = edges(in, "lengths"), &distances = edges(in, "distances");
  const int64_t rows = static_cast<int64_t>(lengths.size()), columns = static_cast<int64_t>(distances.size());
  const auto kept = score_split(in, Split::valid);
  const ScoredSplit& valid = *kept;
  const Matches fitted = find_matches(valid, lengths, distances);
  std::vector<std::vector<double>> p(rows * columns), q(rows * columns);
  for (size_t i = 0; i < valid.nll.size(); ++i)
    if (const int64_t b = fitted.bucket[i]; b >= 0) {
      p[b].push_back(std::exp(-valid.nll[i]));
      q[b].push_back(fitted.right[i] ? 1.0 : 0.0);
    }
  std::vector<double> weights;
  for (int64_t b = 0; b < rows * columns; ++b) weights.push_back(best_mixture_weight(p[b], q[b]));

  const auto kept_test = score_split(in, Split::test);
  const ScoredSplit& test = *kept_test;
  const Matches applied = find_matches(test, lengths, distances);
  std::vector<double> mixed = test.nll, counts(rows * columns, 0.0), right(rows * columns, 0.0);
  double labels = 0, matched = 0, hits = 0;
  for (size_t i = 0; i < mixed.size(); ++i) {
    labels += test.labelled(static_cast<int64_t>(i));
    const int64_t b = applied.bucket[i];
    if (b < 0) continue;
    const double w = weights[b];
    mixed[i] = -std::log((1 - w) * std::exp(-test.nll[i]) + (applied.right[i] ? w : 0.0));
    counts[b] += 1;
    right[b] += applied.right[i];
    matched += 1;
    hits += applied.right[i];
  }
  report_losses(test, mixed, in.task, out);
  out.scalar("matched", matched / labels, "share of labels with a match");
  out.scalar("precision", matched > 0 ? hits / matched : 0.0,
             "share of the matches that the target came after");
  const std::vector<std::string> dims = {"match_length", "match_distance"};
  out.coordinate("match_length", std::vector<double>(lengths.begin(), lengths.end()));
  out.coordinate("match_distance", std::vector<double>(distances.begin(), distances.end()));
  out.array("lambda", weights, {rows, columns}, dims, "weight of the copy, fitted on the validation split");
  out.array("matches", counts, {rows, columns}, dims, "matches in the test split");
  out.array("right", right, {rows, columns}, dims, "those that the target came after");
}

double plan(const MeasureInput& in) {
  edges(in, "lengths");
  edges(in, "distances");
  return plan_splits(in);
}

}  // namespace

const MeasureEntry exact_match_measure = {
    "exact_match", "loss with a copy of what followed the longest matching suffix mixed in (X1, X2)", fields,
    run, plan};

}  // namespace copylab
