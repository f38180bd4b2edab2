// The LM head of a model and its inputs at labelled positions, in float64, and the gradient of the logits.
#include "experiments/measures/head_sample.h"

#include <Eigen/QR>
#include <Eigen/SVD>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {

const Tensor* find_parameter(const nn::Model& model, const std::string& name) {
  return model.parameters().has(name) ? &model.parameters().find(name).tensor : nullptr;
}

Matrix host_matrix(const Backend& backend, const Tensor& t) {
  const std::vector<double> values = values_of(backend, t);
  return Eigen::Map<const Matrix>(values.data(), t.dim(0), t.dim(1));
}

void expect_one_softmax(const nn::Model& model) {
  expect_config(!find_parameter(model, "mixture_head.prior.weight"),
                "[measure] a head of one softmax expected: got a mixture of softmaxes");
}

Matrix output_matrix(const MeasureInput& in, const nn::Model& model) {
  expect_one_softmax(model);
  // A gate adds rows beyond the vocabulary: they are no part of the softmax.
  const Tensor* weight = find_parameter(model, "lm_head.weight");
  const Tensor* down = find_parameter(model, "lm_head.down.weight");
  if (!weight) weight = find_parameter(model, "embed.weight");
  expect(weight != nullptr, "measure", "a model with lm_head.weight or embed.weight expected");
  Matrix w = host_matrix(in.backend, *weight).topRows(in.task.vocab());
  if (down) w = w * host_matrix(in.backend, *down);
  return w;
}

HeadSample sample_head(const MeasureInput& in, const nn::Model& model, int64_t positions) {
  // Sequences per forward pass, fewer of long ones: activations of a large model are large.
  const int64_t rows = std::clamp<int64_t>(2048 / in.task.length(), 1, 16);
  HeadSample sample;
  sample.w = output_matrix(in, model);
  sample.h.resize(positions, sample.w.cols());
  Tape tape(in.backend);
  SplitWalk walk(in.task, Split::test, in.seed, std::numeric_limits<int64_t>::max(), rows);
  while (static_cast<int64_t>(sample.targets.size()) < positions) {
    walk.next();
    const Batch& batch = walk.batch();
    tape.begin({.record = false, .training = false});
    const nn::ModelInput input = walk.input(tape);
    const Matrix h = host_matrix(
        in.backend, model.hidden(tape, input).reshape({batch.rows * batch.length, sample.w.cols()}));
    const size_t before = sample.targets.size();
    for (int64_t i = 0; i < h.rows(); ++i) {
      if (batch.targets[i] < 0 || static_cast<int64_t>(sample.targets.size()) == positions) continue;
      sample.h.row(sample.targets.size()) = h.row(i);
      sample.targets.push_back(batch.targets[i]);
    }
    expect_config(sample.targets.size() > before,
                  "[measure] {} labelled positions asked for, and the test split has {}: ask for fewer",
                  positions, before);
  }
  return sample;
}

double plan_sample(const MeasureInput& in, const std::string& key, int64_t positions) {
  expect_one_softmax(in.model);
  const int64_t rows = std::max<int64_t>(1, in.task.lanes());
  const auto labels = [&](int64_t index) {
    const Batch batch = in.task.batch(Split::test, in.seed, index, rows);
    return std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
  };
  // Each sequence has `length` labels at most, so that this one is read in any case.
  expect_config(labels((positions - 1) / in.task.length() / rows) > 0,
                "{}: {} labelled positions asked for, and the test split has fewer", key, positions);
  const double share =
      static_cast<double>(std::max<int64_t>(1, labels(0))) / static_cast<double>(rows * in.task.length());
  return in.pass_flops(static_cast<double>(positions) / share / static_cast<double>(in.task.length()));
}

double product_flops(const MeasureInput& in, int64_t positions) {
  return 2 * kDouble * static_cast<double>(positions) * static_cast<double>(in.task.vocab()) *
         static_cast<double>(in.model.dim());
}

Matrix logits(const HeadSample& sample, int64_t first, int64_t count) {
  return sample.h.middleRows(first, count) * sample.w.transpose();
}

double logits_to_gradient(const HeadSample& sample, int64_t first, Matrix& rows) {
  const double scale = 1.0 / static_cast<double>(sample.h.rows());
  double loss = 0;
  for (int64_t i = 0; i < rows.rows(); ++i) {
    auto row = rows.row(i);
    const int32_t target = sample.targets[first + i];
    row.array() -= row.maxCoeff();
    const double logit = row[target];
    row = row.array().exp();
    const double sum = row.sum();
    // p - 1 of a well-learnt target as minus the mass elsewhere, which loses no digits near p = 1.
    row[target] = 0;
    const double elsewhere = row.sum();
    row *= scale / sum;
    row[target] = -scale * elsewhere / sum;
    loss += std::log(sum) - logit;
  }
  return loss;
}

Eigen::VectorXd singular_values(const Matrix& m) {
  if (m.rows() < m.cols()) return singular_values(m.transpose());
  const Eigen::MatrixXd r = Eigen::HouseholderQR<Eigen::MatrixXd>(m)
                                .matrixQR()
                                .topRows(m.cols())
                                .template triangularView<Eigen::Upper>();
  return Eigen::BDCSVD<Eigen::MatrixXd>(r).singularValues();
}

int64_t numerical_rank(const Eigen::VectorXd& singular, double tolerance) {
  int64_t rank = 0;
  for (const double s : singular) rank += s > tolerance * singular[0];
  return rank;
}

}  // namespace copylab
