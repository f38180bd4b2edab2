// meta_zero: a run's answers without the positional encoding, and without the embedding, of its meta-tokens.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry meta_zero_measure;

}  // namespace copylab
