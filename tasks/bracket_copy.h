// bracket_copy: words, some in brackets, to be said again.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry bracket_copy_task;

}  // namespace copylab
