// pointer_distance: sums over the traces of test sequences.
#include "experiments/measures/pointer_distance.h"

#include <numeric>

namespace copylab {

PointerDistance::PointerDistance(const PointerReach& reach, int64_t length)
    : reach_(reach), span_(reach.window > 0 ? std::min(reach.window, length) : length) {}

void PointerDistance::add(const PointerTrace& trace) {
  pointer_ = trace.has_pointer();
  if (!pointer_) return;
  for (int64_t t = 0; t < trace.length(); ++t) {
    const int32_t target = trace.targets[t];
    if (target < 0) continue;
    const std::vector<int64_t> keys = reach_.keys(trace, t);
    const double sink = trace.sink.empty() ? 0 : trace.sink[t];
    const double g = 1 - trace.gate[t] * (1 - sink);
    labels_ += 1;
    g_ += g;
    if (keys.empty()) continue;

    double sum = 0, heaviest = -1;
    int64_t top = -1;
    bool copyable = false;
    for (const int64_t key : keys) {
      const int64_t p = key + reach_.shift;
      const double weight = trace.weights(t, p);
      sum += weight;
      copyable = copyable || trace.tokens[p] == target;
      if (weight > heaviest) heaviest = weight, top = p;
    }
    if (sum > 0) self_ += trace.weights(t, t) / sum;
    self_top_ += top == t;
    if (copyable) {
      copyable_ += 1;
      g_copyable_ += g;
    }
    if (reach_.window > 0 && static_cast<int64_t>(keys.size()) < span_) continue;
    full_ += 1;
    for (const int64_t key : keys) {
      const int64_t p = key + reach_.shift;
      const int part = part_of(t + 1 - p);
      const double mass = trace.gate[t] * trace.weights(t, p);
      mass_[part] += mass;
      if (trace.tokens[p] != target) continue;
      right_[part] += mass;
      even_[part] += trace.gate[t] * sum / static_cast<double>(keys.size());
    }
    if (trace.tokens[top] == target) {
      tops_[part_of(t + 1 - top)] += 1;
      farthest_ = std::max(farthest_, static_cast<double>(t + 1 - top));
    }
  }
}

void PointerDistance::report(MeasureOutput& out) const {
  out.scalar("labels", labels_, "labelled positions measured");
  if (!pointer_) return;
  const double new_labels = labels_ - copyable_;
  out.scalar("g", g_ / labels_, "mean share of the vocabulary, 1 - gate·(1 - sink)");
  out.scalar("g_copyable", copyable_ > 0 ? g_copyable_ / copyable_ : std::nan(""),
             "likewise where the target is in reach of the pointer; NaN: nowhere");
  out.scalar("g_new", new_labels > 0 ? (g_ - g_copyable_) / new_labels : std::nan(""),
             "likewise where it is not; NaN: nowhere");
  out.scalar("self_mass", self_ / labels_, "mean weight of the current position among all positions");
  out.scalar("self_top", self_top_ / labels_, "share of labels whose heaviest position is the current one");

  std::vector<double> distance;
  for (int part = 0; part < kParts; ++part)
    distance.push_back(std::ceil(static_cast<double>((part + 1) * span_) / kParts));
  out.coordinate("distance", distance);
  const auto by_part = [&](const char* name, const double* sums, const std::string& doc) {
    std::vector<double> values;
    for (int part = 0; part < kParts; ++part) values.push_back(full_ > 0 ? sums[part] / full_ : std::nan(""));
    out.array(name, values, {kParts}, {"distance"},
              doc + "; the coordinate is the largest distance, 1 = the newest token; NaN: no labels");
  };
  by_part("mass", mass_, "mean copied mass in each tenth of the reach");
  by_part("right_mass", right_, "mean copied mass on correct positions in each tenth of the reach");
  by_part("even_mass", even_, "likewise if the pointer spread its mass evenly");
  by_part("tops", tops_, "share of labels whose heaviest position is correct and in that tenth of the reach");
  const auto last_share = [&](const double* sums) {
    const double all = std::accumulate(sums, sums + kParts, 0.0);
    return all > 0 ? sums[kParts - 1] / all : std::nan("");
  };
  out.scalar("right_mass_last_tenth", last_share(right_),
             "share of the correct copied mass that lies in the last tenth of the reach");
  out.scalar("even_mass_last_tenth", last_share(even_), "likewise if the pointer spread its mass evenly");
  out.scalar("farthest", farthest_, "largest distance at which the heaviest position is a correct one");
}

namespace {

std::vector<Field> fields() {
  return {{"measure.pointer_distance.sequences", int64_t{128},
           "sequences of the test split, of a stream task: stretches of lanes", 1, 1 << 20}};
}

void run(const MeasureInput& in, MeasureOutput& out) {
  PointerDistance distance(pointer_reach(in.settings), trace_length(in, in.model));
  for_each_trace(in, in.model, in.settings.integer("measure.pointer_distance.sequences"),
                 [&](const PointerTrace& trace) { distance.add(trace); });
  distance.report(out);
}

double plan(const MeasureInput& in) {
  return in.pass_flops(static_cast<double>(in.settings.integer("measure.pointer_distance.sequences")));
}

}  // namespace

const MeasureEntry pointer_distance_measure = {
    "pointer_distance",
    "where a pointer points by distance, mass at the current position, and the gate (P6, P13)", fields, run,
    plan};

}  // namespace copylab
