// update_efficiency: loss decrease of the update that reaches the logits, against a direct step of equal
// norm.
#include "experiments/measures/update_efficiency.h"

#include <cmath>

namespace copylab {
namespace {

// Directions of all paths for rows of G: (3) matrices of G's shape.
std::vector<Matrix> directions(const HeadSample& sample, const Matrix& dw, int64_t first, const Matrix& g) {
  const Matrix hidden = (g * sample.w) * sample.w.transpose();
  const Matrix output = sample.h.middleRows(first, g.rows()) * dw.transpose();
  return {hidden, output, hidden + output};
}

}  // namespace

UpdateEfficiency update_efficiency(const HeadSample& sample, const std::vector<double>& norms) {
  const size_t steps = norms.size(), paths = std::size(kPaths);
  const double n = static_cast<double>(sample.h.rows());

  Matrix dw = Matrix::Zero(sample.w.rows(), sample.w.cols());  // Gᵀ·H
  for_each_gradient_tile(sample, [&](int64_t first, const Matrix& g) {
    dw += g.transpose() * sample.h.middleRows(first, g.rows());
  });

  double g2 = 0;
  std::vector<double> u2(paths, 0.0), gu(paths, 0.0);
  for_each_gradient_tile(sample, [&](int64_t first, const Matrix& g) {
    g2 += g.squaredNorm();
    const auto u = directions(sample, dw, first, g);
    for (size_t p = 0; p < paths; ++p) {
      u2[p] += u[p].squaredNorm();
      gu[p] += g.cwiseProduct(u[p]).sum();
    }
  });
  expect(g2 > 0, "update_efficiency", "a gradient that is not zero expected");

  double loss = 0;
  std::vector<double> direct(steps, 0.0), by_path(paths * steps, 0.0);  // losses first
  for_each_gradient_tile(sample, [&](int64_t first, const Matrix& g) {
    const Matrix start = logits(sample, first, g.rows());
    const auto loss_after = [&](const Matrix& direction, double length) {
      Matrix moved = start - length * direction;
      return logits_to_gradient(sample, first, moved) / n;
    };
    loss += loss_after(g, 0.0);
    const auto u = directions(sample, dw, first, g);
    for (size_t i = 0; i < steps; ++i) {
      const double norm = norms[i] * std::sqrt(n);
      direct[i] += loss_after(g, norm / std::sqrt(g2));
      for (size_t p = 0; p < paths; ++p) by_path[p * steps + i] += loss_after(u[p], norm / std::sqrt(u2[p]));
    }
  });
  for (double& x : direct) x = loss - x;
  for (double& x : by_path) x = loss - x;
  std::vector<double> cosine(paths);
  for (size_t p = 0; p < paths; ++p) cosine[p] = gu[p] / std::sqrt(g2 * u2[p]);
  return {loss, direct, by_path, cosine};
}

namespace {

const std::vector<double> kNorms = {0.001, 0.01, 0.1, 1.0};

std::vector<Field> fields() {
  return {{"measure.update_efficiency.positions", int64_t{1024}, "labelled positions of the test split", 1,
           1 << 20}};
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const HeadSample sample =
      sample_head(in, in.model, in.settings.integer("measure.update_efficiency.positions"));
  const UpdateEfficiency e = update_efficiency(sample, kNorms);
  const int64_t steps = static_cast<int64_t>(kNorms.size());
  std::vector<double> ratio;
  for (size_t i = 0; i < e.by_path.size(); ++i) ratio.push_back(e.direct[i % steps] / e.by_path[i]);

  out.coordinate("norm", kNorms);
  out.coordinate("path", {0, 1, 2});
  const std::string paths = "; path 0 through the hidden states, 1 through the output matrix, 2 through both";
  out.scalar("loss", e.loss, "mean cross-entropy of the LM head before the step, nats");
  out.array("decrease_direct", e.direct, {steps}, {"norm"},
            "loss decrease along the logit gradient; norm = root-mean-square change of a logit vector, nats");
  out.array("decrease", e.by_path, {3, steps}, {"path", "norm"}, "loss decrease at equal norm, nats" + paths);
  out.array("ratio", ratio, {3, steps}, {"path", "norm"}, "decrease_direct over decrease" + paths);
  out.array("cosine", e.cosine, {3}, {"path"}, "cosine between the logit gradient and the update" + paths);
  // Steps of 0.1 are where the loss responds but the softmax has not moved far: the numbers for bands.
  const size_t at = 2;
  out.scalar("ratio_hidden", ratio[at], "direct over through the hidden states, at norm 0.1");
  out.scalar("ratio_output", ratio[steps + at], "direct over through the output matrix, at norm 0.1");
  out.scalar("ratio_both", ratio[2 * steps + at], "direct over through both, at norm 0.1");
  out.scalar("ratio_null",
             std::sqrt(static_cast<double>(sample.w.rows()) / static_cast<double>(sample.w.cols())),
             "ratio of a projection on D directions for a gradient without preferred direction, sqrt(V/D)");
}

double plan(const MeasureInput& in) {
  const std::string key = "measure.update_efficiency.positions";
  const int64_t positions = in.settings.integer(key);
  // Three walks over the tiles: logits and dW; logits and the directions of both paths (3 products), twice.
  return plan_sample(in, key, positions) + (2 + 4 + 4) * product_flops(in, positions);
}

}  // namespace

const MeasureEntry update_efficiency_measure = {
    "update_efficiency", "loss decrease of hidden-state updates against logit updates of equal norm (G7)",
    fields, run, plan};

}  // namespace copylab
