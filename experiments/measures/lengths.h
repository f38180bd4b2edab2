// lengths: a run's task at other lengths, levels and places of meta-tokens than it was trained on.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry lengths_measure;

}  // namespace copylab
