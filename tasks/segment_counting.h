// segment_counting: lists, one with a marked segment, and a question how often an item occurs in it.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry segment_counting_task;

}  // namespace copylab
