// The text task: predict the next byte, word or piece of real text.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry text_task;

}  // namespace copylab
