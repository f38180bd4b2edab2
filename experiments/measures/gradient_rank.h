// gradient_rank: exact singular values of the logit gradient, over growing batches of tokens.
#pragma once

#include "experiments/measures/head_sample.h"

namespace copylab {

// Singular values of a matrix that arrives in blocks of rows, without keeping more than about three times
// `columns` rows: full blocks are reduced to their triangular factor, which has the same singular values.
class RowStreamSvd {
 public:
  explicit RowStreamSvd(int64_t columns) : columns_(columns), stack_(0, columns) {}
  void append(const Matrix& rows);
  Eigen::VectorXd singular_values() const;  // min(rows, columns) of them, descending

 private:
  int64_t columns_, used_ = 0;
  Matrix stack_;  // (capacity, columns), the first `used_` rows count
};

// The smallest k for which the k largest singular values hold `share` of the Frobenius norm.
int64_t components_for(const Eigen::VectorXd& singular, double share);

extern const MeasureEntry gradient_rank_measure;

}  // namespace copylab
