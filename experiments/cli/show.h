// Printing of what a measure found.
#pragma once

#include <string>

#include "experiments/measures/measure.h"

namespace copylab {

void print_result(const std::string& name, const MeasureOutput& output);

}  // namespace copylab
