// VariationalBottleneck: forward and backward pass by hand in float64, with the reparameterisation trick.
#include "experiments/measures/variational_bottleneck.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/random.h"

namespace copylab {
namespace {

using Point = VariationalBottleneck::Point;

// Distortion at this rate on a curve whose points are sorted by rate.
double at_rate(const std::vector<Point>& curve, double rate) {
  size_t i = 1;
  while (i + 1 < curve.size() && curve[i].rate < rate) ++i;
  const Point &a = curve[i - 1], &b = curve[i];
  const double share = b.rate > a.rate ? (rate - a.rate) / (b.rate - a.rate) : 0.5;
  return a.distortion + share * (b.distortion - a.distortion);
}

}  // namespace

double gaussian_kl(const Matrix& mean, const Matrix& log_variance) {
  return 0.5 * (mean.array().square() + log_variance.array().exp() - 1 - log_variance.array()).sum();
}

template <class M, class T>
VariationalBottleneck::Parts<M> VariationalBottleneck::parts_of(T* flat) const {
  const auto take = [&](int64_t rows, int64_t columns) {
    const Eigen::Map<M> part(flat, rows, columns);
    flat += rows * columns;
    return part;
  };
  return {take(width_, dim_), take(1, width_),        take(width_, dim_),
          take(1, width_),    take(classes_, width_), take(1, classes_)};
}

VariationalBottleneck::VariationalBottleneck(int64_t dim, int64_t width, int64_t classes, uint64_t seed)
    : dim_(dim), width_(width), classes_(classes), seed_(seed) {
  parameters_.assign(2 * (width * dim + width) + classes * width + classes, 0.0);
  const Parts<Matrix> parts = parts_of<Matrix>(parameters_.data());
  const Random random(seed, "bottleneck.init");
  uint64_t next = 0;
  const auto fill = [&](Eigen::Map<Matrix> m) {
    const double std = 1.0 / std::sqrt(static_cast<double>(m.cols()));
    for (Eigen::Index i = 0; i < m.size(); ++i) m.data()[i] = std * random.normal(next++);
  };
  fill(parts.mean);
  fill(parts.out);
}

VariationalBottleneck::Code VariationalBottleneck::encode(const Matrix& h) const {
  const auto p = parts_of<const Matrix>(parameters_.data());
  Code code{h * p.mean.transpose(), h * p.spread.transpose()};
  code.mean.rowwise() += p.mean_bias.row(0);
  code.log_variance.rowwise() += p.spread_bias.row(0);
  return code;
}

Matrix VariationalBottleneck::log_probabilities(const Matrix& z) const {
  const auto p = parts_of<const Matrix>(parameters_.data());
  Matrix logits = z * p.out.transpose();
  logits.rowwise() += p.out_bias.row(0);
  for (Eigen::Index i = 0; i < logits.rows(); ++i) {
    const double top = logits.row(i).maxCoeff();
    logits.row(i).array() -= top + std::log((logits.row(i).array() - top).exp().sum());
  }
  return logits;
}

Matrix VariationalBottleneck::noise(const char* purpose, int64_t draw, int64_t rows) const {
  const Random random(seed_, purpose, static_cast<uint64_t>(draw));
  Matrix out(rows, width_);
  for (Eigen::Index i = 0; i < out.size(); ++i) out.data()[i] = random.normal(static_cast<uint64_t>(i));
  return out;
}

double VariationalBottleneck::loss(const LabelledStates& states, const Matrix& noise, double beta,
                                   std::vector<double>* gradient) const {
  const double n = static_cast<double>(states.h.rows());
  const Code code = encode(states.h);
  const Matrix sigma = (code.log_variance.array() / 2).exp();
  const Matrix z = code.mean.array() + sigma.array() * noise.array();
  const Matrix log_p = log_probabilities(z);
  double nll = 0;
  for (Eigen::Index i = 0; i < log_p.rows(); ++i) nll -= log_p(i, states.labels[i]);
  const double total = (nll + beta * gaussian_kl(code.mean, code.log_variance)) / n;
  if (!gradient) return total;

  const auto p = parts_of<const Matrix>(parameters_.data());
  gradient->assign(parameters_.size(), 0.0);
  Parts<Matrix> g = parts_of<Matrix>(gradient->data());
  Matrix dlogits = log_p.array().exp() / n;
  for (Eigen::Index i = 0; i < dlogits.rows(); ++i) dlogits(i, states.labels[i]) -= 1 / n;
  const Matrix dz = dlogits * p.out;
  const Matrix dmean = dz + beta / n * code.mean;
  const Matrix dspread =
      dz.array() * noise.array() * sigma.array() / 2 + beta / (2 * n) * (sigma.array().square() - 1);
  g.out = dlogits.transpose() * z;
  g.out_bias = dlogits.colwise().sum();
  g.mean = dmean.transpose() * states.h;
  g.mean_bias = dmean.colwise().sum();
  g.spread = dspread.transpose() * states.h;
  g.spread_bias = dspread.colwise().sum();
  return total;
}

void VariationalBottleneck::train(const LabelledStates& states, double beta, int64_t steps, double rate) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
  std::vector<double> gradient, m(parameters_.size(), 0.0), v(parameters_.size(), 0.0);
  for (int64_t step = 1; step <= steps; ++step) {
    loss(states, noise("bottleneck.train", step, states.h.rows()), beta, &gradient);
    const double first = 1 - std::pow(kBeta1, step), second = 1 - std::pow(kBeta2, step);  // of the moments
    // Falls to zero, so that the noise of the last draws averages out.
    const double now =
        rate * 0.5 *
        (1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps)));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * gradient[i];
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * gradient[i] * gradient[i];
      parameters_[i] -= now * (m[i] / first) / (std::sqrt(v[i] / second) + kEps);
    }
  }
}

Point VariationalBottleneck::measure(const LabelledStates& states, int64_t draws) const {
  const double n = static_cast<double>(states.h.rows());
  const Code code = encode(states.h);
  Point out{gaussian_kl(code.mean, code.log_variance) / n, 0, 0};
  for (int64_t draw = 0; draw < draws; ++draw) {
    const Matrix eps = noise("bottleneck.test", draw, states.h.rows());
    const Matrix log_p =
        log_probabilities(code.mean.array() + (code.log_variance.array() / 2).exp() * eps.array());
    for (Eigen::Index i = 0; i < log_p.rows(); ++i) {
      Eigen::Index best = 0;
      log_p.row(i).maxCoeff(&best);
      out.distortion -= log_p(i, states.labels[i]);
      out.accuracy += best == states.labels[i];
    }
  }
  out.distortion /= n * static_cast<double>(draws);
  out.accuracy /= n * static_cast<double>(draws);
  return out;
}

double share_below(std::vector<Point> a, std::vector<Point> b) {
  constexpr int kSteps = 1000;
  for (auto* curve : {&a, &b}) {
    expect(curve->size() >= 2, "rate_distortion", "a curve of at least two points expected: got {}",
           curve->size());
    std::sort(curve->begin(), curve->end(), [](const Point& x, const Point& y) { return x.rate < y.rate; });
  }
  const double low = std::max(a.front().rate, b.front().rate), high = std::min(a.back().rate, b.back().rate);
  if (!(low < high)) return std::nan("");
  int below = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double rate = low + (high - low) * (i + 0.5) / kSteps;
    below += at_rate(a, rate) < at_rate(b, rate);
  }
  return static_cast<double>(below) / kSteps;
}

}  // namespace copylab
