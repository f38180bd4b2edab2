// VariationalBottleneck: how many nats of a state a predictor needs (papers: meta-tokens, §4.7; Alemi et al.
// 2017).
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/measures/head_sample.h"

namespace copylab {

// Labelled states; labels 0..classes-1.
struct LabelledStates {
  Matrix h;  // (N, D)
  std::vector<int32_t> labels;
};

// KL(N(mean, diag exp(log_variance)) || N(0, I)), nats: half the sum of mean² + variance - 1 - log variance.
double gaussian_kl(const Matrix& mean, const Matrix& log_variance);

// z ~ N(mu(h), diag sigma²(h)), mu and log sigma² affine in h; p(y|z) = softmax(W z + b).
class VariationalBottleneck {
 public:
  // Small random weights, keyed by seed.
  VariationalBottleneck(int64_t dim, int64_t width, int64_t classes, uint64_t seed);

  // Mean over the states of -log p(y|z) + beta · KL, z drawn with `noise` (N, width), standard normal. With
  // `gradient` (flat, in the order of `parameters`) its gradient, which is overwritten.
  double loss(const LabelledStates& states, const Matrix& noise, double beta,
              std::vector<double>* gradient = nullptr) const;
  // Adam on all states at once, with fresh noise in each of `steps`.
  void train(const LabelledStates& states, double beta, int64_t steps, double rate);

  struct Point {
    double rate;        // mean KL, nats
    double distortion;  // mean -log p(y|z) over `draws` of z, nats
    double accuracy;    // share of states and draws whose label is the most probable
  };
  Point measure(const LabelledStates& states, int64_t draws) const;

  std::vector<double>& parameters() { return parameters_; }

 private:
  template <class M>  // Matrix, or const Matrix
  struct Parts {      // views into flat parameters or gradients
    Eigen::Map<M> mean, mean_bias, spread, spread_bias, out, out_bias;
  };
  template <class M, class T>
  Parts<M> parts_of(T* flat) const;
  // What the states are encoded as: means and log variances (N, width).
  struct Code {
    Matrix mean, log_variance;
  };
  Code encode(const Matrix& h) const;
  Matrix log_probabilities(const Matrix& z) const;  // (N, classes)
  Matrix noise(const char* purpose, int64_t draw, int64_t rows) const;

  int64_t dim_, width_, classes_;
  uint64_t seed_;
  std::vector<double> parameters_;
};

// The share of the rates that both curves reach on which `a` has less distortion than `b`, each interpolated
// linearly between its points. NaN where they have no rates in common.
double share_below(std::vector<VariationalBottleneck::Point> a, std::vector<VariationalBottleneck::Point> b);

}  // namespace copylab
