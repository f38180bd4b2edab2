// update_rank: the rank of the logit change that one gradient step on hidden states and output matrix makes.
#pragma once

#include "experiments/measures/head_sample.h"

namespace copylab {

// One step of size eta on H and W (Lost in Backpropagation, Eq. 5):
//   first order  ΔL = -eta (G·W·Wᵀ + H·Hᵀ·G)
//   true         ΔL = (H - eta·G·W)(W - eta·Gᵀ·H)ᵀ - H·Wᵀ
// Both have rank at most 2D, while G itself may have rank V-1.
struct UpdateRank {
  int64_t first_order, finite, gradient;  // numerical ranks
  double unreachable;  // ‖tail of G beyond 2D singular values‖ / ‖G‖ (Eckart-Young-Mirsky)
  double curvature;    // ‖true - first order‖ / ‖true‖
};
// eta is chosen so that ‖ΔW‖ = step · ‖W‖. Keeps (N, V).
UpdateRank update_rank(const HeadSample& sample, double step, double tolerance);

extern const MeasureEntry update_rank_measure;

}  // namespace copylab
