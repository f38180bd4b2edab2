// parity: bits, a mark behind some of them, and their exclusive or.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry parity_task;

}  // namespace copylab
