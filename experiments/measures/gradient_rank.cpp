// gradient_rank: exact singular values of the logit gradient, over growing batches of tokens.
#include "experiments/measures/gradient_rank.h"

#include <Eigen/QR>
#include <cmath>
#include <set>

namespace copylab {

void RowStreamSvd::append(const Matrix& rows) {
  if (used_ + rows.rows() > stack_.rows()) {
    if (used_ > 2 * columns_) {
      const Eigen::HouseholderQR<Eigen::MatrixXd> qr(stack_.topRows(used_));
      stack_.topRows(columns_) = qr.matrixQR().topRows(columns_).template triangularView<Eigen::Upper>();
      used_ = columns_;
    }
    stack_.conservativeResize(std::max(stack_.rows(), used_ + std::max<int64_t>(rows.rows(), columns_ / 2)),
                              columns_);
  }
  stack_.middleRows(used_, rows.rows()) = rows;
  used_ += rows.rows();
}

Eigen::VectorXd RowStreamSvd::singular_values() const {
  return copylab::singular_values(stack_.topRows(used_));
}

int64_t components_for(const Eigen::VectorXd& singular, double share) {
  const double enough = share * share * singular.squaredNorm();
  double sum = 0;
  for (int64_t k = 0; k < singular.size(); ++k)
    if ((sum += singular[k] * singular[k]) >= enough) return k + 1;
  return singular.size();
}

namespace {

const std::vector<double> kShares = {0.7, 0.9, 0.99, 0.999};

std::vector<Field> fields() {
  return {
      {"measure.gradient_rank.tokens", std::vector<int64_t>{256, 1024, 4096},
       "labelled positions of each batch, ascending"},
      {"measure.gradient_rank.limit", int64_t{4096}, "largest min(positions, V) that is decomposed", 1,
       1 << 15},
      {"measure.gradient_rank.tolerance", 1e-6, "a singular value counts above this times the largest", 0.0,
       1.0},
  };
}

// A batch beyond the limit is left out; the coordinate `tokens` says which remain.
std::vector<int64_t> sizes_of(const MeasureInput& in) {
  const int64_t limit = in.settings.integer("measure.gradient_rank.limit"), vocab = in.task.vocab();
  std::vector<int64_t> sizes = in.settings.integers("measure.gradient_rank.tokens");
  std::erase_if(sizes, [&](int64_t n) { return std::min(n, vocab) > limit; });
  expect_config(
      !sizes.empty() && sizes.front() > 0 && std::is_sorted(sizes.begin(), sizes.end()),
      "measure.gradient_rank.tokens: ascending positive batch sizes with min(size, V) <= {} expected", limit);
  return sizes;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const double tolerance = in.settings.real("measure.gradient_rank.tolerance");
  const int64_t vocab = in.task.vocab();
  const std::vector<int64_t> sizes = sizes_of(in);
  const HeadSample sample = sample_head(in, in.model, sizes.back());
  std::vector<double> ranks, shares_of_full, distinct, components, spectrum;
  RowStreamSvd svd(vocab);
  std::set<int32_t> targets;
  int64_t done = 0;  // a batch holds the ones before it
  for (const int64_t size : sizes) {
    while (done < size) {
      Matrix rows = logits(sample, done, std::min<int64_t>(256, size - done));
      logits_to_gradient(sample, done, rows);
      svd.append(rows);
      targets.insert(sample.targets.begin() + done, sample.targets.begin() + done + rows.rows());
      done += rows.rows();
    }
    const Eigen::VectorXd s = svd.singular_values();
    ranks.push_back(static_cast<double>(numerical_rank(s, tolerance)));
    shares_of_full.push_back(ranks.back() / static_cast<double>(std::min(size, vocab - 1)));
    distinct.push_back(static_cast<double>(targets.size()));
    for (const double share : kShares) components.push_back(static_cast<double>(components_for(s, share)));
    if (size == sizes.back()) spectrum.assign(s.begin(), s.end());
  }

  const int64_t n = static_cast<int64_t>(sizes.size()), k = static_cast<int64_t>(kShares.size());
  out.coordinate("tokens", std::vector<double>(sizes.begin(), sizes.end()));
  out.coordinate("share", kShares);
  out.array("rank", ranks, {n}, {"tokens"}, "numerical rank of the logit gradient");
  out.array("rank_share", shares_of_full, {n}, {"tokens"},
            "rank over the largest possible, min(tokens, V-1)");
  out.array("distinct_targets", distinct, {n}, {"tokens"}, "different targets in the batch");
  out.array("components", components, {n, k}, {"tokens", "share"},
            "singular vectors that hold this share of the Frobenius norm");
  out.array("singular_values", spectrum, {static_cast<int64_t>(spectrum.size())}, {"component"},
            "singular values of the logit gradient of the largest batch");
  // At the largest batch, as numbers that a band can name.
  const double v = static_cast<double>(vocab);
  out.scalar("rank_over_vocab", ranks.back() / (v - 1), "rank over V-1, largest batch");
  out.scalar("k70_over_vocab", components[(n - 1) * k] / v, "components for 70 % of the norm over V");
  out.scalar("k999_over_vocab", components.back() / v, "components for 99.9 % of the norm over V");
}

// Besides the sample and its gradient, singular values of (n, V): 2·n·V·m operations to a triangle and some
// 4·m³ there, m = min(n, V).
double plan(const MeasureInput& in) {
  const std::vector<int64_t> sizes = sizes_of(in);
  const double vocab = static_cast<double>(in.task.vocab());
  double flops =
      plan_sample(in, "measure.gradient_rank.tokens", sizes.back()) + product_flops(in, sizes.back());
  for (const int64_t size : sizes) {
    const double n = static_cast<double>(size), m = std::min(n, vocab);
    flops += kDouble * (2 * n * vocab * m + 4 * m * m * m);
  }
  return flops;
}

}  // namespace

const MeasureEntry gradient_rank_measure = {
    "gradient_rank", "rank and spectrum of the logit gradient against the size of the batch (G4)", fields,
    run, plan};

}  // namespace copylab
