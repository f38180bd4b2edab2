// The self-check of tasks behind `copylab check tasks`: solver against ceiling, balance, purity, duplicates.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "tasks/task.h"

namespace copylab {

// One line of the table, over the first 4096 sequences of a split.
struct TaskCheck {
  std::string task, variant;  // variant: settings that differ from the defaults, "defaults" if none
  int64_t vocab = 0, length = 0;
  double ceiling = 0, chance = 0;
  double solver = 0;      // accuracy of the solver on the test split; where it cannot know it gets `chance`
  double balance = 0;     // labels against uniform over their range: chi² as a standard normal score
  double drift = 0;       // labels of train against labels of test: chi² as a standard normal score
  double duplicates = 0;  // share of test sequences that occur among as many training sequences
  uint64_t hash = 0;      // fingerprint of the first 256 test sequences, seed 1
  std::string violation;  // empty, or what is wrong
};

TaskCheck check_task(const Task& task);

// Prints the table for every registered task and variant. Returns 0, or 3 if there was a violation.
int check_tasks(std::ostream& out);

}  // namespace copylab
