// cache: the memory that a sequence keeps while text is generated.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry cache_measure;

}  // namespace copylab
