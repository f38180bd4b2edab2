// transfer: loss on text that the model was not trained on.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry transfer_measure;

}  // namespace copylab
