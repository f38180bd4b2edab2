// Settings "train.…" and "eval.…".
#pragma once

#include <vector>

#include "core/settings.h"

namespace copylab {

std::vector<Field> train_fields();

}  // namespace copylab
