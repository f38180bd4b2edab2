// The list of tasks; a new task adds its line here.
#include "tasks/task.h"

#include "core/error.h"

namespace copylab {

const char* name_of(Split split) {
  return split == Split::train ? "train" : split == Split::valid ? "valid" : "test";
}

}  // namespace copylab
