// Task: a source of training and test sequences that is a pure function of (settings, seed, split, index).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/settings.h"

namespace copylab {

enum class Split : int { train, valid, test };
const char* name_of(Split split);

// One batch of B sequences of T positions. Position t reads tokens[t] and is asked for targets[t].
struct Batch {
  int64_t rows = 0;              // B
  int64_t length = 0;            // T
  std::vector<int32_t> tokens;   // (B, T)
  std::vector<int32_t> targets;  // (B, T); -1 = no label, no loss
  std::vector<int32_t> segment;  // (B, T) document number, or empty: one document per sequence
  std::vector<int32_t> slice;    // (B, T) index into Task::slices(), or empty
  std::vector<int32_t> bytes;    // (B, T) bytes of text that each target stands for, or empty
  std::vector<uint8_t> meta;     // (B, T) nonzero where the token is a meta-token, or empty: none is
  // Streams only: row b continues row b of the batch before, unless `fresh`; the next batch begins `advance`
  // positions after this one.
  bool fresh = false;
  int64_t advance = 0;  // 0: T
};

// Of that shape without labels: tokens 0, targets -1, slice 0; no segments, no bytes and no meta-tokens.
Batch blank_batch(int64_t rows, int64_t length);

class Task {
 public:
  virtual ~Task() = default;

  virtual int64_t vocab() const = 0;   // V: ids are 0..V-1
  virtual int64_t length() const = 0;  // T
  // Batch `index` of a split; the same for every model. Splits never share a random stream.
  virtual Batch batch(Split split, uint64_t seed, int64_t index, int64_t rows) const = 0;

  // True: sequences are drawn from a known distribution, without end, differently for every seed. False: they
  // are cut from a text that someone wrote. Nobody knows its best predictor then: solve() answers nothing and
  // ceiling() is NaN. Validation and test are the same for every seed; rows past their end have no labels.
  virtual bool generated() const { return true; }

  // 0: sequences are independent of each other. Else each split is that many contiguous streams, and a batch
  // must be asked for with as many rows: batch i of a split is the i-th stretch of every stream.
  virtual int64_t lanes() const { return 0; }

  // The id of its meta-tokens, which batches mark (Batch::meta); -1: it has none.
  virtual int32_t meta_token() const { return -1; }

  // What an exact solver predicts, reading only tokens[0..t] of each row: (B, T), -1 where it cannot know.
  virtual std::vector<int32_t> solve(const Batch& batch) const = 0;
  // Expected accuracy over labelled positions of the best possible predictor (ceiling) and of a uniform
  // guess.
  virtual double ceiling() const = 0;
  virtual double chance() const = 0;
  // Expected accuracy of the best guess over the positions where solve() does not know.
  virtual double guess() const { return chance(); }
  // Names of accuracy slices (by distance, difficulty …); empty if the task has none.
  virtual std::vector<std::string> slices() const { return {}; }
  // Readable form of row `row` of a batch, for `copylab data --show`.
  virtual std::string show(const Batch& batch, int64_t row) const = 0;
  // A prompt as tokens and back: ids separated by blanks, unless the task has words of its own. Throws Error
  // for what is no prompt.
  virtual std::vector<int32_t> tokens_of(const std::string& prompt) const;
  virtual std::string text_of(const std::vector<int32_t>& tokens) const;
  // Facts about a budget of training sequences worth printing with every result, as "name: value" lines:
  // SpamLang says how many independent sequences each symbol gets.
  virtual std::vector<std::pair<std::string, double>> budget(int64_t sequences) const {
    (void)sequences;
    return {};
  }
};

// A line of the registry (tasks/registry.cpp).
struct TaskEntry {
  const char* name;
  const char* doc;                 // one line
  int version;                     // part of the run id: raise it whenever a batch changes
  std::vector<Field> (*fields)();  // "task.…" fields besides task.name
  std::unique_ptr<Task> (*make)(const Settings& settings);
  // Changes against the defaults, one set each, that `check tasks` and the tests examine besides the
  // defaults.
  std::vector<std::vector<std::pair<std::string, Value>>> (*variants)();
  // Completes the settings of a new run by what stands outside of the configuration, such as the hash of a
  // file that they name. Fields that it sets must be `later`. Throws Error. Null: nothing does.
  void (*complete)(Settings& settings) = nullptr;
};

// The defaults of an entry's fields, with `changes` over them.
Settings task_settings(const TaskEntry& entry,
                       const std::vector<std::pair<std::string, Value>>& changes = {});

const std::vector<TaskEntry>& task_registry();
const TaskEntry& find_task(const std::string& name);  // throws Error with the nearest name

}  // namespace copylab
