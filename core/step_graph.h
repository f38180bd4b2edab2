// StepGraph: repeats what a step asks of a machine as one unit.
#pragma once

#include <cstdint>
#include <functional>

namespace copylab {

class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Does `work`: at once, or by recording what it asks of the backend and running that as a whole, or, when
  // the recording still says what `work` asks for, by running it again. The numbers are the same bits.
  //
  // `work` may be called twice for one run, may upload, and may not read what it has the backend compute
  // (Tape::when_computed).
  virtual void run(const std::function<void()>& work) = 0;

  // How runs went.
  struct Counts {
    int64_t direct = 0;    // command by command
    int64_t recorded = 0;  // recorded, then run
    int64_t repeated = 0;  // run from an earlier recording
    int64_t updated = 0;   // launches of these whose arguments had changed
  };
  const Counts& counts() const { return counts_; }

 protected:
  Counts counts_;
};

}  // namespace copylab
