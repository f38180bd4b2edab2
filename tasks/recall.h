// Recall: key-value pairs, then keys again, each to be answered with its value (MQAR).
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry recall_task;

}  // namespace copylab
