// pointer_time: how the time of a pointer grows with its window (P10, P18).
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

// e of the least-squares fit y = c·x^e, in logarithms. At least two different positive x, all y positive.
double fitted_exponent(const std::vector<double>& x, const std::vector<double>& y);

extern const MeasureEntry pointer_time_measure;

}  // namespace copylab
