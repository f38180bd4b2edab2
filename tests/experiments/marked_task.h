// MarkedTask: SpamLang with a meta-token in every fourth position, for tests of what reads Batch::meta.
#pragma once

#include <memory>

#include "tasks/spamlang.h"
#include "tasks/task.h"

namespace copylab::testing {

// The meta-token is the last id; positions 2, 6, 10, … of each sequence hold it.
class MarkedTask : public Task {
 public:
  explicit MarkedTask(const Settings& settings) : inner_(spamlang_task.make(settings)) {}

  int64_t vocab() const override { return inner_->vocab(); }
  int64_t length() const override { return inner_->length(); }
  Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const override {
    Batch b = inner_->batch(split, seed, index, rows);
    b.meta.assign(b.tokens.size(), 0);
    for (int64_t i = 0; i < b.rows * b.length; ++i) {
      if (i % b.length % 4 != 2) continue;
      b.meta[i] = 1;
      b.tokens[i] = static_cast<int32_t>(vocab() - 1);
    }
    return b;
  }
  std::vector<int32_t> solve(const Batch& b) const override { return inner_->solve(b); }
  double ceiling() const override { return inner_->ceiling(); }
  double chance() const override { return inner_->chance(); }
  std::string show(const Batch& b, int64_t row) const override { return inner_->show(b, row); }

 private:
  std::unique_ptr<Task> inner_;
};

}  // namespace copylab::testing
