// rate_distortion: variational bottlenecks on frozen states, one for each state and beta (M20, M21).
#include "experiments/measures/rate_distortion.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"
#include "experiments/measures/variational_bottleneck.h"
#include "experiments/train/trainer.h"

namespace copylab {
namespace {

using Point = VariationalBottleneck::Point;

const std::vector<std::string> kStates = {"last_token", "meta_token", "meta_token_no_position"};

std::vector<Field> fields() {
  return {
      {"measure.rate_distortion.train_sequences", int64_t{1024},
       "validation sequences that the bottlenecks are trained on", 1, 1 << 20},
      {"measure.rate_distortion.sequences", int64_t{512}, "test sequences that they are measured on", 1,
       1 << 20},
      {"measure.rate_distortion.width", int64_t{16}, "width of z", 1, 4096},
      {"measure.rate_distortion.betas", int64_t{7}, "log-spaced weights of the rate, from 1 down to 0.01", 2,
       100},
      {"measure.rate_distortion.steps", int64_t{400},
       "updates of each bottleneck, over all training sequences", 1, 1000000},
      {"measure.rate_distortion.rate", 0.01, "learning rate of Adam at the start; it falls to 0", 1e-6, 1.0},
  };
}

class HiddenProbe : public Probe {
 public:
  bool wants(const std::string& name) const override { return name == "hidden"; }
  void take(const std::string&, const Tensor& value) override { hidden = value; }
  Tensor hidden;
};

// For each state of kStates, that of each sequence with an answer and a meta-token before it. The answer is
// the last label; its last token is the one that the model reads when asked for it.
std::vector<LabelledStates> states_of(const MeasureInput& in, Split split, int64_t sequences) {
  const int64_t dim = in.model.dim();
  std::vector<std::vector<double>> rows(kStates.size());
  std::vector<int32_t> labels;
  Tape tape(in.backend);
  const auto hidden = [&](const Batch& batch, bool positions) {
    HiddenProbe probe;
    tape.begin({.record = false, .training = false, .probe = &probe});
    nn::ModelInput input = model_input(tape, batch);
    if (!positions) input.intervention.zero_position = input.meta;
    in.model.hidden(tape, input);
    return values_of(in.backend, probe.hidden);
  };
  SplitWalk walk(in.task, split, in.seed, sequences, 1);
  while (walk.next()) {
    const Batch& batch = walk.batch();
    if (batch.meta.empty()) continue;
    int64_t answer = batch.length - 1;
    while (answer >= 0 && batch.targets[answer] < 0) --answer;
    int64_t meta = answer;
    while (meta >= 0 && !batch.meta[meta]) --meta;
    if (meta < 0) continue;
    labels.push_back(batch.targets[answer]);
    const std::vector<double> full = hidden(batch, true), cleared = hidden(batch, false);
    const auto add = [&](size_t state, const std::vector<double>& from, int64_t position) {
      rows[state].insert(rows[state].end(), from.begin() + position * dim,
                         from.begin() + (position + 1) * dim);
    };
    add(0, full, answer);
    add(1, full, meta);
    add(2, cleared, meta);
  }
  expect(!labels.empty(), "rate_distortion", "{} sequences with a meta-token before a label expected",
         name_of(split));
  std::vector<LabelledStates> out;
  for (const auto& values : rows)
    out.push_back({Eigen::Map<const Matrix>(values.data(), labels.size(), dim), labels});
  return out;
}

// Numbers the labels 0, 1, … over both; returns how many there are.
int64_t number_labels(std::vector<LabelledStates>& train, std::vector<LabelledStates>& test) {
  std::map<int32_t, int32_t> numbers;
  for (auto* all : {&train, &test})
    for (const int32_t label : all->front().labels) numbers.emplace(label, 0);
  int32_t next = 0;
  for (auto& [label, number] : numbers) number = next++;
  for (auto* all : {&train, &test})
    for (LabelledStates& states : *all)
      for (int32_t& label : states.labels) label = numbers.at(label);
  return next;
}

// Both to mean 0 and variance 1 over the training sequences, coordinate by coordinate.
void standardise(LabelledStates& train, LabelledStates& test) {
  const Eigen::RowVectorXd mean = train.h.colwise().mean();
  train.h.rowwise() -= mean;
  test.h.rowwise() -= mean;
  const Eigen::RowVectorXd scale =
      (train.h.array().square().colwise().mean() + 1e-12).sqrt().inverse().matrix();
  train.h = train.h * scale.asDiagonal();
  test.h = test.h * scale.asDiagonal();
}

// Of the test labels under the shares of the training labels, with one more of each: the distortion that can
// be had at rate 0.
double label_entropy(const std::vector<int32_t>& train, const std::vector<int32_t>& test, int64_t classes) {
  std::vector<double> counts(classes, 1.0);
  for (const int32_t label : train) counts[label] += 1;
  double nll = 0;
  for (const int32_t label : test)
    nll -= std::log(counts[label] / static_cast<double>(train.size() + counts.size()));
  return nll / static_cast<double>(test.size());
}

std::vector<double> betas_of(const MeasureInput& in) {
  const int64_t n = in.settings.integer("measure.rate_distortion.betas");
  std::vector<double> betas;
  for (int64_t i = 0; i < n; ++i) betas.push_back(std::pow(100.0, -static_cast<double>(i) / (n - 1)));
  return betas;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const auto setting = [&](const char* name) {
    return in.settings.integer(std::string("measure.rate_distortion.") + name);
  };
  std::vector<LabelledStates> train = states_of(in, Split::valid, setting("train_sequences"));
  std::vector<LabelledStates> test = states_of(in, Split::test, setting("sequences"));
  const int64_t classes = number_labels(train, test);
  const std::vector<double> betas = betas_of(in);

  constexpr int64_t kDraws = 8;
  std::vector<std::vector<Point>> curves(kStates.size());
  for (size_t i = 0; i < kStates.size(); ++i) {
    standardise(train[i], test[i]);
    for (const double beta : betas) {
      VariationalBottleneck bottleneck(in.model.dim(), setting("width"), classes, in.seed);
      bottleneck.train(train[i], beta, setting("steps"), in.settings.real("measure.rate_distortion.rate"));
      curves[i].push_back(bottleneck.measure(test[i], kDraws));
    }
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(kStates.size()),
                                      static_cast<int64_t>(betas.size())};
  const auto array = [&](const char* name, double Point::*of, const char* doc) {
    std::vector<double> values;
    for (const auto& curve : curves)
      for (const Point& point : curve) values.push_back(point.*of);
    out.array(name, values, shape, {"state", "beta"}, doc);
  };
  out.label("state", kStates);
  out.coordinate("beta", betas);
  array("rate", &Point::rate, "mean KL of q(z|state) from N(0, I) over test sequences, nats");
  array("distortion", &Point::distortion, "mean -log p(answer|z) over test sequences and draws of z, nats");
  array("accuracy", &Point::accuracy, "share of test sequences and draws with the answer the most probable");
  out.scalar("label_entropy", label_entropy(train[0].labels, test[0].labels, classes),
             "null: distortion of the answers' frequencies alone, at rate 0, nats");
  out.scalar("meta_below_last", share_below(curves[1], curves[0]),
             "share of the common rates at which meta_token has less distortion than last_token; NaN: none");
  out.scalar("no_position_below_meta", share_below(curves[2], curves[1]),
             "likewise meta_token_no_position against meta_token; NaN: none");
  out.scalar("sequences", static_cast<double>(test[0].labels.size()),
             "test sequences with a meta-token before their answer");
}

double plan(const MeasureInput& in) {
  expect_config(meta_share(in.task) > 0, "[rate_distortion] a task with meta-tokens expected: got {}",
                in.settings.text("task.name"));
  const auto setting = [&](const char* name) {
    return static_cast<double>(in.settings.integer(std::string("measure.rate_distortion.") + name));
  };
  const double updates = 3 * setting("betas") * setting("steps") * setting("train_sequences");
  const double weights = 2 * static_cast<double>(in.model.dim()) * setting("width");
  return in.pass_flops(2 * (setting("train_sequences") + setting("sequences"))) +
         kDouble * updates * 6 * weights;
}

}  // namespace

const MeasureEntry rate_distortion_measure = {
    "rate_distortion", "variational bottlenecks on states of meta-tokens and of last tokens (M20, M21)",
    fields, run, plan};

}  // namespace copylab
