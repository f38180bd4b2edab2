// overhead: what a head costs in time, arithmetic and parameters, against the plain LM head on the same
// backbone.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry overhead_measure;

}  // namespace copylab
