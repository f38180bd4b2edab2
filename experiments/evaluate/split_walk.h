// SplitWalk: the one way to go over the sequences of a split with a model, streams included.
#pragma once

#include "core/nn/model.h"
#include "tasks/task.h"

namespace copylab {

// Sequences 0..sequences-1 of a split, some at a time:
//
//   SplitWalk walk(task, Split::test, seed, sequences, rows);
//   while (walk.next()) {
//     tape.begin({.record = false, .training = false});
//     model.forward(tape, walk.input(tape));
//   }
//
// Independent sequences come `rows` at a time, whatever rows is. Of a stream task (Task::lanes) a batch is
// one stretch of every lane, each counting as a sequence, and the number is rounded up to whole batches; the
// walk ends where the split does, and keeps what the model remembers of the lanes: one walk for one model.
class SplitWalk {
 public:
  SplitWalk(const Task& task, Split split, uint64_t seed, int64_t sequences, int64_t rows);

  bool next();
  const Batch& batch() const { return batch_; }
  bool labelled() const;                       // any position of the batch is
  int64_t sequences() const { return done_; }  // so far, this batch included
  nn::ModelInput input(Tape& tape);
  nn::Carry* carry() { return task_.lanes() > 0 ? &carry_ : nullptr; }

 private:
  const Task& task_;
  Split split_;
  uint64_t seed_;
  int64_t wanted_, rows_, done_ = 0;
  Batch batch_;
  nn::Carry carry_;
};

// A batch as the input of a model; arrays live on the tape until its next begin(). With a carry the batch
// continues a stream, unless it is a fresh one: then the carry is cleared.
nn::ModelInput model_input(Tape& tape, const Batch& batch, nn::Carry* carry = nullptr);

}  // namespace copylab
