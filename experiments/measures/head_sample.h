// The LM head of a model and its inputs at labelled positions, in float64, and the gradient of the logits.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiments/measures/measure.h"

namespace copylab {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// N labelled positions of a task and the head that reads them: logits L = H·Wᵀ (N, V).
// The measures on it speak of W as one free matrix: the factors of head.rank are not updated apart, and the
// projection of head.backward_rank, which acts between W and the hidden states, is not counted as a loss.
struct HeadSample {
  Matrix h;                      // (N, D) final hidden states
  Matrix w;                      // (V, D) output matrix over the real vocabulary; A·B for a factorised head
  std::vector<int32_t> targets;  // (N), in 0..V-1
};

// A weight or activation (rows, columns) as float64 on the host.
Matrix host_matrix(const Backend& backend, const Tensor& t);

// The parameter of that name, or null.
const Tensor* find_parameter(const nn::Model& model, const std::string& name);

// Throws ConfigError for a mixture of softmaxes.
void expect_one_softmax(const nn::Model& model);

// W (V, D) of HeadSample.
Matrix output_matrix(const MeasureInput& in, const nn::Model& model);

// The first `positions` labelled positions of the test split. Throws ConfigError if it has fewer, and for a
// head of several softmaxes.
HeadSample sample_head(const MeasureInput& in, const nn::Model& model, int64_t positions);

// For MeasureEntry::plan: the operations of sample_head, which `key` asks for so many positions. Throws
// ConfigError for what sample_head refuses, as far as one sequence of the test split shows it.
double plan_sample(const MeasureInput& in, const std::string& key, int64_t positions);
// Those of one product of (N, V) logits or their gradient with a (V, D) matrix.
double product_flops(const MeasureInput& in, int64_t positions);

// Rows first..first+count-1 of L (count, V).
Matrix logits(const HeadSample& sample, int64_t first, int64_t count);

// In place, rows of logits -> rows of G = dLoss/dL = (softmax(L) - onehot(targets)) / N, where Loss is the
// mean cross-entropy of the LM head over the N positions. Returns the summed cross-entropy of these rows.
double logits_to_gradient(const HeadSample& sample, int64_t first, Matrix& rows);

// f(first, G rows) over tiles of rows, so that nothing of size (N, V) is kept.
template <class F>
void for_each_gradient_tile(const HeadSample& sample, F&& f) {
  constexpr int64_t kTile = 64;
  for (int64_t first = 0; first < sample.h.rows(); first += kTile) {
    Matrix rows = logits(sample, first, std::min<int64_t>(kTile, sample.h.rows() - first));
    logits_to_gradient(sample, first, rows);
    f(first, rows);
  }
}

// Singular values in descending order, from a thin QR of the taller side and the SVD of its small factor.
Eigen::VectorXd singular_values(const Matrix& m);

// How many singular values exceed tolerance · the largest.
int64_t numerical_rank(const Eigen::VectorXd& singular, double tolerance);

}  // namespace copylab
