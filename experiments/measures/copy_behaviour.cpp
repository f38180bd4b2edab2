// copy_behaviour: when a pointer is used, what it points at, and which predictions it repairs.
#include "experiments/measures/copy_behaviour.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "experiments/measures/statistics.h"

namespace copylab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRocPoints = 65;
const std::vector<std::string> kSourceNames = {"token", "context1", "context2", "token+context1",
                                               "token+context2"};
const std::vector<std::string> kRepeatNames = {"new", "token", "pair", "triple"};
const std::vector<std::string> kModeNames = {"natural", "no_copy", "force_copy"};

// How many tokens left of position p agree with those left of the target of t (0, 1 or 2).
int context_match(const PointerTrace& trace, int64_t t, int64_t p) {
  int match = 0;
  while (match < 2 && p - 1 - match >= 0 && t - match >= 0 &&
         trace.tokens[p - 1 - match] == trace.tokens[t - match] &&
         trace.segment[p - 1 - match] == trace.segment[t] && trace.segment[t - match] == trace.segment[t])
    ++match;
  return match;
}

std::vector<double> ratio(const std::vector<double>& sum, const std::vector<double>& count) {
  std::vector<double> out(sum.size());
  for (size_t i = 0; i < sum.size(); ++i) out[i] = count[i] > 0 ? sum[i] / count[i] : kNaN;
  return out;
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : kNaN;
}

}  // namespace

CopyBehaviour::CopyBehaviour(const PointerReach& reach, int64_t length)
    : reach_(reach), bins_(half_octaves(length)) {
  for (auto* sums : {&near_, &near_right_, &near_shuffled_, &count_, &gate_at_, &use_at_, &sink_at_,
                     &gate_sink_at_, &copyable_at_})
    sums->assign(bins_.size(), 0.0);
}

void CopyBehaviour::add(const PointerTrace& trace, const PointerTrace* other) {
  pointer_ = trace.has_pointer();
  sink_known_ = !trace.sink.empty();
  for (int64_t t = 0; t < trace.length(); ++t) {
    const int32_t target = trace.targets[t];
    if (target < 0) continue;
    labels_ += 1;
    int repeat = 0;
    for (const int64_t key : reach_.keys(trace, t))
      if (const int64_t p = key + reach_.shift; trace.tokens[p] == target)
        repeat = std::max(repeat, 1 + context_match(trace, t, p));
    const bool copyable = repeat > 0;
    const int64_t bin = bin_of(bins_, t + 1);
    count_[bin] += 1;
    copyable_at_[bin] += copyable;

    // A head without a pointer has the mode natural alone.
    const std::vector<double>* nll[] = {&trace.nll, &trace.lm_nll, &trace.copy_nll};
    const std::vector<int32_t>* best[] = {&trace.best, &trace.lm_best, &trace.copy_best};
    repeat_count_[repeat] += 1;
    for (int mode = 0; mode < (pointer_ ? kModes : 1); ++mode) {
      repeat_nll_[repeat][mode] += (*nll[mode])[t];
      repeat_hits_[repeat][mode] += (*best[mode])[t] == target;
    }
    if (!pointer_) continue;

    const double gate = trace.gate[t], use = gate * trace.weights.row(t).sum();
    const bool lm_right = trace.lm_best[t] == target, mixture_right = trace.best[t] == target;
    fixes_ += mixture_right && !lm_right;
    breaks_ += lm_right && !mixture_right;
    gate_.push_back(gate);
    use_.push_back(use);
    right_.push_back(trace.copy_best[t] == target);
    new_.push_back(!copyable);
    gate_at_[bin] += gate;
    use_at_[bin] += use;
    if (sink_known_) {
      sink_.push_back(trace.sink[t]);
      sink_at_[bin] += trace.sink[t];
      gate_sink_at_[bin] += gate * trace.sink[t];
    }
    add_sources(trace, other, t);
  }
}

void CopyBehaviour::add_sources(const PointerTrace& trace, const PointerTrace* other, int64_t t) {
  const std::vector<int64_t> keys = reach_.keys(trace, t);
  if (keys.empty()) return;
  const double gate = trace.gate[t], use = gate * trace.weights.row(t).sum();
  double other_sum = 0;
  if (other)
    for (const int64_t key : keys) other_sum += other->weights(t, key + reach_.shift);
  mass_ += use;
  if (other_sum > 0) shuffled_mass_ += use;
  for (const int64_t key : keys) {
    const int64_t p = key + reach_.shift;
    const int context = context_match(trace, t, p);
    const bool token = trace.tokens[p] == trace.targets[t];
    const bool is[kSources] = {token, context >= 1, context == 2, token && context >= 1,
                               token && context == 2};
    const double mass = gate * trace.weights(t, p);
    const double even = use / static_cast<double>(keys.size());
    const double shuffled = other_sum > 0 ? use * other->weights(t, p) / other_sum : 0;
    for (int s = 0; s < kSources; ++s) {
      if (!is[s]) continue;
      source_[s] += mass;
      uniform_[s] += even;
      shuffled_[s] += shuffled;
    }
    const int64_t bin = bin_of(bins_, t + 1 - p);
    near_[bin] += mass;
    if (token) near_right_[bin] += mass;
    if (token) near_shuffled_[bin] += shuffled;
  }
}

void CopyBehaviour::report(MeasureOutput& out) const {
  const int64_t bins = static_cast<int64_t>(bins_.size());
  std::vector<double> positions(bins_.begin(), bins_.end());
  out.coordinate("position", positions);
  out.scalar("labels", labels_, "labelled positions measured");
  double copyable = 0;
  for (const double x : copyable_at_) copyable += x;
  out.scalar("copyable", copyable / labels_, "share of targets among the tokens that the position may copy");
  out.array("copyable_by_position", ratio(copyable_at_, count_), {bins}, {"position"},
            "share of copyable targets; the coordinate is the most tokens read in the bin; NaN: no labels");

  // C41 beyond what slices of a task say: the longest run of tokens up to the target that occurred before.
  const int modes = pointer_ ? kModes : 1;
  std::vector<double> counts(repeat_count_, repeat_count_ + kRepeats), losses, accuracies;
  for (int r = 0; r < kRepeats; ++r)
    for (int mode = 0; mode < modes; ++mode) {
      // The pointer alone gives a target that it cannot reach the probability 0: no finite loss.
      const bool impossible = r == 0 && mode == 2;
      losses.push_back(impossible ? kNaN : share(repeat_nll_[r][mode], repeat_count_[r]));
      accuracies.push_back(share(repeat_hits_[r][mode], repeat_count_[r]));
    }
  out.label("repeat", kRepeatNames);
  out.label("mode", {kModeNames.begin(), kModeNames.begin() + modes});
  out.array("labels_by_repeat", counts, {kRepeats}, {"repeat"},
            "targets that are new, seen, seen after the same token, after the same two tokens (disjoint)");
  out.array("loss_by_repeat", losses, {kRepeats, modes}, {"repeat", "mode"},
            "mean -log p, nats; NaN: no such target, or new to a pointer alone");
  out.array("accuracy_by_repeat", accuracies, {kRepeats, modes}, {"repeat", "mode"},
            "accuracy; NaN: no such target");
  if (!pointer_) return;
  double natural = 0, no_copy = 0;
  for (int r = 0; r < kRepeats; ++r) {
    natural += repeat_nll_[r][0];
    no_copy += repeat_nll_[r][1];
  }
  out.scalar("no_copy_gap", (no_copy - natural) / labels_,
             "loss of the LM head alone less the mixture's, nats");
  for (int r = 1; r < kRepeats; ++r)
    out.scalar("force_copy_gap_" + kRepeatNames[r],
               share(repeat_nll_[r][2] - repeat_nll_[r][0], repeat_count_[r]),
               "loss of the pointer alone less the mixture's on such targets, nats; NaN: no such target");

  // C37, C38.
  out.scalar("pointer_right",
             share(static_cast<double>(std::count(right_.begin(), right_.end(), true)), labels_),
             "share of targets that are the pointer's favourite token");
  out.scalar("gate_auc", auc(gate_, right_),
             "area under the ROC curve of alpha for: the pointer is right; NaN: always or never");
  out.scalar("use_auc", auc(use_, right_), "likewise of alpha (1 - a_sink); NaN likewise");
  std::vector<double> rate(kRocPoints), roc = roc_curve(gate_, right_, kRocPoints);
  for (int64_t i = 0; i < kRocPoints; ++i) rate[i] = static_cast<double>(i) / (kRocPoints - 1);
  const std::vector<double> use_roc = roc_curve(use_, right_, kRocPoints);
  roc.insert(roc.end(), use_roc.begin(), use_roc.end());
  if (sink_known_) {
    out.scalar("sink_auc", auc(sink_, new_),
               "area under the ROC curve of a_sink for: the target is not copyable; NaN: all or none are");
    const std::vector<double> sink_roc = roc_curve(sink_, new_, kRocPoints);
    roc.insert(roc.end(), sink_roc.begin(), sink_roc.end());
  }
  out.coordinate("false_positive_rate", rate);
  out.label("score", sink_known_ ? std::vector<std::string>{"gate", "use", "sink"}
                                 : std::vector<std::string>{"gate", "use"});
  out.array("roc", roc, {sink_known_ ? 3 : 2, kRocPoints}, {"score", "false_positive_rate"},
            "true-positive rate behind gate_auc, use_auc, sink_auc; NaN likewise");

  // C39.
  const auto shares = [](const double* sums, double whole) {
    std::vector<double> v;
    for (int s = 0; s < kSources; ++s) v.push_back(share(sums[s], whole));
    return v;
  };
  const std::vector<double> mass = shares(source_, mass_), chance = shares(uniform_, mass_),
                            shuffled = shares(shuffled_, shuffled_mass_);
  out.label("source", kSourceNames);
  out.array("source_mass", mass, {kSources}, {"source"}, "share of the copy mass on such positions");
  out.array("source_chance", chance, {kSources}, {"source"},
            "likewise, each position's copy mass spread evenly over those it may use");
  out.array("source_shuffled", shuffled, {kSources}, {"source"},
            "likewise, spread by the weights of another sequence at the same position; NaN: no mass");
  for (int s = 0; s < kSources; ++s) {
    std::string name = kSourceNames[s];
    std::replace(name.begin(), name.end(), '+', '_');
    out.scalar(name + "_share", mass[s],
               "share of the copy mass on such positions, see source; NaN: no mass");
    out.scalar(name + "_factor", share(mass[s], chance[s]), "over an even spread; NaN: no such positions");
    out.scalar(name + "_factor_shuffled", share(mass[s], shuffled[s]),
               "over another sequence's weights; NaN likewise");
  }

  // C40.
  out.scalar("fixes", fixes_ / labels_, "share of targets where the LM head is wrong and the mixture right");
  out.scalar("breaks", breaks_ / labels_,
             "share of targets where the LM head is right and the mixture wrong");
  out.scalar("fixes_over_breaks", fixes_ / std::max(1.0, breaks_), "ratio, counting at least one break");

  // C16, C17.
  const auto by_position = [&](const std::string& name, const std::vector<double>& sums,
                               const std::vector<double>& weights, const std::string& doc) {
    const std::vector<double> mean = ratio(sums, weights);
    out.array(name + "_by_position", mean, {bins}, {"position"}, doc);
    out.scalar(name + "_spearman", spearman(positions, mean),
               "rank correlation with position, over bins; NaN: no variation");
  };
  by_position("gate", gate_at_, count_, "mean alpha; NaN: no labels");
  by_position("use", use_at_, count_, "mean alpha (1 - a_sink); NaN: no labels");
  if (sink_known_) {
    by_position("sink", sink_at_, count_, "mean a_sink; NaN: no labels");
    by_position("gated_sink", gate_sink_at_, gate_at_, "mean a_sink weighted by alpha; NaN: no labels");
  }

  // C18.
  const auto normalised = [](std::vector<double> sums, double whole) {
    for (double& x : sums) x = share(x, whole);
    return sums;
  };
  out.coordinate("distance", positions);
  out.array("mass_by_distance", normalised(near_, mass_), {bins}, {"distance"},
            "share of the copy mass; the coordinate is the bin's largest distance to the target, 1 = the "
            "newest token");
  out.array("right_mass_by_distance", normalised(near_right_, mass_), {bins}, {"distance"},
            "likewise, on positions that hold the target");
  out.array("shuffled_right_mass_by_distance", normalised(near_shuffled_, shuffled_mass_), {bins},
            {"distance"}, "likewise, by the weights of another sequence at the same position");
}

namespace {

std::vector<Field> fields() {
  return {{"measure.copy_behaviour.sequences", int64_t{64}, "sequences of the test split", 2, 1 << 20}};
}

void run(const MeasureInput& in, MeasureOutput& out) {
  CopyBehaviour behaviour(pointer_reach(in.settings), trace_length(in, in.model));
  std::optional<PointerTrace> last;
  bool any = false;
  for_each_trace(in, in.model, in.settings.integer("measure.copy_behaviour.sequences"),
                 [&](const PointerTrace& trace) {
                   behaviour.add(trace, last ? &*last : nullptr);
                   last = trace;
                   any = true;
                 });
  expect(any, "copy_behaviour", "a sequence with labels expected");
  behaviour.report(out);
}

double plan(const MeasureInput& in) {
  return in.pass_flops(static_cast<double>(in.settings.integer("measure.copy_behaviour.sequences")));
}

}  // namespace

const MeasureEntry copy_behaviour_measure = {
    "copy_behaviour",
    "gate and sink against what can be copied, sources, fixes and breaks (C16, C17, C37-C41)", fields, run,
    plan};

}  // namespace copylab
