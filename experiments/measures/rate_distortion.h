// rate_distortion: what the states of meta-tokens and of last tokens tell about the answer, at which rate.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry rate_distortion_measure;

}  // namespace copylab
