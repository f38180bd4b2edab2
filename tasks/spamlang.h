// SpamLang: one random symbol, a block of symbols, or several announced symbols repeated over a sequence.
#pragma once

#include "tasks/task.h"

namespace copylab {

extern const TaskEntry spamlang_task;

}  // namespace copylab
