// induction: losses on random tokens shown twice, and which heads attend along the induction stripe.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry induction_measure;

}  // namespace copylab
