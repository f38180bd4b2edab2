// head_gradient: how much of the logit gradient the LM head passes back to the hidden states.
#include "experiments/measures/head_gradient.h"

#include <Eigen/QR>
#include <cmath>

namespace copylab {
namespace {

struct Moments {
  double n = 0, sum = 0, squares = 0;
  void add(double x) {
    n += 1;
    sum += x;
    squares += x * x;
  }
  double mean() const { return n > 0 ? sum / n : 0; }
  double deviation() const { return n > 0 ? std::sqrt(std::max(0.0, squares / n - mean() * mean())) : 0; }
};

}  // namespace

HeadGradient head_gradient(const HeadSample& sample) {
  // Pivoting finds the rank of W too; the first `rank` columns of Q span its columns. Q·Qᵀ is never built.
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(sample.w);
  const int64_t rank = qr.rank();
  const Matrix q = qr.householderQ() * Eigen::MatrixXd::Identity(sample.w.rows(), rank);

  double total = 0, lost = 0, kept = 0, inner = 0;
  Moments r, c;
  for_each_gradient_tile(sample, [&](int64_t, const Matrix& g) {
    const Matrix visible = (g * q) * q.transpose();
    for (int64_t i = 0; i < g.rows(); ++i) {
      const double g2 = g.row(i).squaredNorm(), v2 = visible.row(i).squaredNorm();
      const double l2 = (g.row(i) - visible.row(i)).squaredNorm(), gv = g.row(i).dot(visible.row(i));
      total += g2;
      lost += l2;
      kept += v2;
      inner += gv;
      if (g2 == 0) continue;  // a saturated position sends nothing
      r.add(std::sqrt(l2 / g2));
      c.add(v2 > 0 ? gv / std::sqrt(g2 * v2) : 0);
    }
  });
  expect(total > 0, "head_gradient", "a gradient that is not zero expected");
  return {.rank = rank,
          .r = std::sqrt(lost / total),
          .c = kept > 0 ? inner / std::sqrt(total * kept) : 0,
          .token_r_mean = r.mean(),
          .token_r_std = r.deviation(),
          .token_c_mean = c.mean(),
          .token_c_std = c.deviation()};
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.head_gradient.positions", int64_t{2048}, "labelled positions of the test split", 1, 1 << 24}};
}

// Everything that is known about one set of weights; `prefix` tells finished from initial.
HeadGradient report(const MeasureInput& in, const nn::Model& model, const std::string& prefix,
                    MeasureOutput& out) {
  const HeadSample sample = sample_head(in, model, in.settings.integer("measure.head_gradient.positions"));
  const HeadGradient g = head_gradient(sample);
  const double share = static_cast<double>(g.rank) / static_cast<double>(sample.w.rows());
  const double r_null = std::sqrt(1 - share), c_null = std::sqrt(share);
  out.scalar(prefix + "r", g.r, "share of the Frobenius norm of the logit gradient lost in the LM head");
  out.scalar(prefix + "c", g.c, "cosine between the logit gradient and its visible part");
  out.scalar(prefix + "rank", static_cast<double>(g.rank), "rank of the output matrix");
  out.scalar(prefix + "r_null", r_null, "r of a gradient without preferred direction, sqrt(1 - rank/V)");
  out.scalar(prefix + "c_null", c_null, "c of a gradient without preferred direction, sqrt(rank/V)");
  if (r_null > 0) out.scalar(prefix + "r_ratio", g.r / r_null, "r over its isotropic null");
  out.scalar(prefix + "c_ratio", g.c / c_null, "c over its isotropic null");
  out.scalar(prefix + "identity_error", std::abs(g.r * g.r + g.c * g.c - 1),
             "|r² + c² - 1|, 0 but for rounding");
  out.scalar(prefix + "token_r_mean", g.token_r_mean, "mean over positions of the lost share");
  out.scalar(prefix + "token_r_std", g.token_r_std, "standard deviation over positions of the lost share");
  out.scalar(prefix + "token_c_mean", g.token_c_mean, "mean over positions of the cosine");
  out.scalar(prefix + "token_c_std", g.token_c_std, "standard deviation over positions of the cosine");
  return g;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const HeadGradient final = report(in, in.model, "", out);
  if (!in.initial) return;
  const HeadGradient initial = report(in, *in.initial, "initial_", out);
  out.scalar("r_change", final.r - initial.r, "r of the finished model minus r at step 0");
}

// For each of the finished and the initial model: the logits and two projections of their gradient, and an
// orthogonal basis of W.
double plan(const MeasureInput& in) {
  const std::string key = "measure.head_gradient.positions";
  const int64_t positions = in.settings.integer(key);
  const double models = in.initial ? 2 : 1;
  return models * (plan_sample(in, key, positions) + 3 * product_flops(in, positions) +
                   2 * product_flops(in, in.model.dim()));
}

}  // namespace

const MeasureEntry head_gradient_measure = {
    "head_gradient", "share of the logit gradient that the LM head loses, with its isotropic null (G1-G3)",
    fields, run, plan};

}  // namespace copylab
