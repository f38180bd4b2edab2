// copy_gradient: how much of the gradient of the pointer's scores reaches the hidden states, by path.
#pragma once

#include <array>

#include "experiments/measures/pointer_trace.h"

namespace copylab {

// A linear map y = A x, A (n, m), and what of a gradient g = dLoss/dy (n) its transpose passes on to x
// (papers §2.9). With left singular vectors u_i and singular values s_i of A, each a share of |g|:
//   exact           norm of the projection of g on all u_i with s_i > 1e-6 s_1
//   tau_1, 5, 10    likewise with s_i > 0.01, 0.05, 0.1 s_1
//   transmission    |Aᵀ g| / (s_1 |g|)
// Normalised queries (QK-norm) pass nothing along themselves, so that A of the query path has rank d - 1 at
// most.
constexpr int kDefinitions = 5;
using Kept = std::array<double, kDefinitions>;
const std::vector<std::string>& kept_definitions();

class Jacobian {
 public:
  explicit Jacobian(const Matrix& a);
  Kept kept(const Eigen::VectorXd& gradient) const;

 private:
  Eigen::MatrixXd left_;      // (n, min(n, m))
  Eigen::VectorXd singular_;  // descending
};

// The same for A whose rows are orthogonal, given their norms: singular values without a decomposition.
Kept kept_of_orthogonal_rows(const Eigen::VectorXd& norms, const Eigen::VectorXd& gradient);

// One row of a mixture p(y) = (1 - alpha) P~(y) + alpha · sum_i a_i value_i, a = softmax(scores): value_i is
// 1 for a key that holds the target y and else 0, and P~(y) for a sink that returns its mass to the LM head.
struct ScoreGradient {
  double p;                  // p(y)
  Eigen::VectorXd gradient;  // d(-log p)/d scores: -(alpha/p) a_i (value_i - sum a·value), papers §2.6
};
ScoreGradient score_gradient(const Eigen::VectorXd& scores, const Eigen::VectorXd& values, double alpha,
                             double lm_probability);

// Queries or keys of a Copy-Paste head as a function of a hidden state h (D): y = gain · u / rho with u = M h
// and rho = sqrt(mean(u²) + eps), or y = u without normalisation.
struct Projection {
  Matrix m;  // (d, D)
  bool normalised = false;
  double gain = 1;
  Matrix apply(const Matrix& h) const;  // (N, D) -> (N, d)
  // Rows y_iᵀ J(h_i) (N, D) for vectors y (N, d), with J = dy/dh (d, D): M, or with normalisation
  // (gain / rho) (I - u uᵀ / (d rho²)) M, which takes out the radial part that the norm removes. h has N
  // rows, or one that serves all.
  Matrix pull_back(const Matrix& h, const Matrix& y) const;
};

// The pointer of a Copy-Paste head.
struct CopyHead {
  Projection query, key;
  Eigen::VectorXd sink;  // (d); empty: none
  bool sink_returns;     // the sink's mass goes to the LM head
  PointerReach reach;
};
// Throws Error for a model without copy_head.q.weight.
CopyHead copy_head(const MeasureInput& in, const nn::Model& model);

// Gradients of the scores of one sequence, loss -log p of each row by itself.
struct PointerGradient {
  struct Row {
    std::vector<int64_t> keys;  // that the row may use; empty: no label, no key or no gradient
    Matrix sources;  // (keys + sink, d): key vectors, then the sink's; score = scale · source · query
    Eigen::VectorXd gradient;  // (keys + sink)
  };
  double scale;           // 1/sqrt(d)
  std::vector<Row> rows;  // (T)
};
// Throws Error where the loss of a row is not the one that the model gave it.
PointerGradient pointer_gradient(const CopyHead& head, const PointerTrace& trace);

extern const MeasureEntry copy_gradient_measure;

}  // namespace copylab
