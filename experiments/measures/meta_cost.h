// meta_cost: what meta-attention costs in time, gathered and masked, against the same model without it.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

// Marks (rows, length): round(share · length) positions of each row, at least one, drawn at random.
std::vector<uint8_t> random_marks(uint64_t seed, double share, int64_t rows, int64_t length);

extern const MeasureEntry meta_cost_measure;

}  // namespace copylab
