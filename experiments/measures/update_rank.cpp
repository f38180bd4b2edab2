// update_rank: the rank of the logit change that one gradient step on hidden states and output matrix makes.
#include "experiments/measures/update_rank.h"

#include <cmath>

namespace copylab {

UpdateRank update_rank(const HeadSample& sample, double step, double tolerance) {
  const Matrix &h = sample.h, &w = sample.w;
  Matrix g = logits(sample, 0, h.rows());
  logits_to_gradient(sample, 0, g);
  const Matrix dh = g * w, dw = g.transpose() * h;  // gradients of H and W
  const double eta = step * w.norm() / dw.norm();
  const Matrix first_order = -eta * (dh * w.transpose() + h * dw.transpose());
  // Expanded, so that no digits are lost to the logits themselves.
  const Matrix finite = first_order + (eta * eta) * (dh * dw.transpose());

  const Eigen::VectorXd s = singular_values(g);
  const int64_t reachable = std::min<int64_t>(2 * w.cols(), s.size());
  return {.first_order = numerical_rank(singular_values(first_order), tolerance),
          .finite = numerical_rank(singular_values(finite), tolerance),
          .gradient = numerical_rank(s, tolerance),
          .unreachable = s.tail(s.size() - reachable).norm() / s.norm(),
          .curvature = (finite - first_order).norm() / finite.norm()};
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.update_rank.positions", int64_t{512}, "labelled positions of the test split", 1, 4096},
      {"measure.update_rank.step", 0.1, "size of the step on W relative to W", 0.0, 1e6},
      {"measure.update_rank.tolerance", 1e-10, "a singular value counts above this times the largest", 0.0,
       1.0},
  };
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const HeadSample sample = sample_head(in, in.model, in.settings.integer("measure.update_rank.positions"));
  const UpdateRank u = update_rank(sample, in.settings.real("measure.update_rank.step"),
                                   in.settings.real("measure.update_rank.tolerance"));
  const double bound = 2.0 * static_cast<double>(sample.w.cols());
  out.scalar("bound", bound, "2D, the largest rank that a step can have");
  out.scalar("rank_first_order", static_cast<double>(u.first_order),
             "numerical rank of the first-order change");
  out.scalar("rank_finite", static_cast<double>(u.finite),
             "numerical rank of the change by a step of finite size");
  out.scalar("rank_gradient", static_cast<double>(u.gradient), "numerical rank of the logit gradient itself");
  out.scalar("rank_over_bound", static_cast<double>(std::max(u.first_order, u.finite)) / bound,
             "the larger of both ranks over 2D");
  out.scalar("unreachable", u.unreachable, "share of the gradient's norm beyond its 2D largest components");
  out.scalar("curvature", u.curvature, "norm of the second-order part of the change over the whole change");
}

// Eight products, and the singular values of three (N, V) matrices.
double plan(const MeasureInput& in) {
  const std::string key = "measure.update_rank.positions";
  const int64_t positions = in.settings.integer(key);
  const double n = static_cast<double>(positions), vocab = static_cast<double>(in.task.vocab());
  const double m = std::min(n, vocab);
  return plan_sample(in, key, positions) + 8 * product_flops(in, positions) +
         3 * kDouble * (2 * n * vocab * m + 4 * m * m * m);
}

}  // namespace

const MeasureEntry update_rank_measure = {
    "update_rank", "rank of the logit change of one gradient step, first-order and finite (G5)", fields, run,
    plan};

}  // namespace copylab
