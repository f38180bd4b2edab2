// Copy stream: words drawn without memory, and phrases that come again, at a chosen rate.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry copy_stream_task;

}  // namespace copylab
