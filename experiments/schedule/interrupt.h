// Interrupts: Ctrl-C and SIGTERM set a flag that long work looks at between two steps.
#pragma once

namespace copylab {

// While it lives, SIGINT and SIGTERM are counted instead of ending the program.
class CatchInterrupts {
 public:
  CatchInterrupts();
  ~CatchInterrupts();
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;
};

int interrupts();  // how often since CatchInterrupts began

}  // namespace copylab
