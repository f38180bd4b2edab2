// Induction: blocks of random tokens shown again, to be copied by what followed the same token before.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry induction_task;

}  // namespace copylab
