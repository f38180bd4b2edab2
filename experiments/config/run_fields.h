// Settings "run.…": where a run belongs and what it starts from.
#pragma once

#include <string>
#include <vector>

#include "core/settings.h"

namespace copylab {

std::vector<Field> run_fields();

// The names in run.measures.
std::vector<std::string> measure_names(const std::string& list);

}  // namespace copylab
