// list_recall: lists with names, and a question for one item of one of them.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry list_recall_task;

}  // namespace copylab
