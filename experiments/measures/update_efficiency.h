// update_efficiency: loss decrease of the update that reaches the logits, against a direct step of equal
// norm.
#pragma once

#include "experiments/measures/head_sample.h"

namespace copylab {

// How an update reaches the logits.
enum class Path : int { hidden, output, both };  // -G·W·Wᵀ, -H·Hᵀ·G, and their sum
inline constexpr Path kPaths[] = {Path::hidden, Path::output, Path::both};

struct UpdateEfficiency {
  double loss;                  // mean cross-entropy before, nats
  std::vector<double> direct;   // (norms) decrease by a step along -G
  std::vector<double> by_path;  // (3, norms) decrease by a step of equal Frobenius norm along each path
  std::vector<double> cosine;   // (3) between G and the path's direction: the limit of by_path / direct
};
// `norms` are root-mean-square changes of a position's logit vector: ‖ΔL‖_F = norm · sqrt(N).
UpdateEfficiency update_efficiency(const HeadSample& sample, const std::vector<double>& norms);

extern const MeasureEntry update_efficiency_measure;

}  // namespace copylab
