// Interrupts: Ctrl-C and SIGTERM ask a run to save and stop; the handler only sets a flag.
#pragma once

#include <exception>

namespace copylab {

// Thrown where the work may stop; everything needed to resume has been or will be saved.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

void install_interrupt_handlers();  // SIGINT, SIGTERM
void request_interrupt();
bool interrupted();
void throw_if_interrupted();
void clear_interrupt();  // for a process that starts another run

}  // namespace copylab
