// Interrupts: one flag.
#include "experiments/train/interrupt.h"

#include <csignal>

namespace copylab {
namespace {

volatile std::sig_atomic_t requested = 0;

void on_signal(int) {
  requested = 1;
}

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void request_interrupt() {
  requested = 1;
}
bool interrupted() {
  return requested != 0;
}
void throw_if_interrupted() {
  if (interrupted()) throw Interrupted();
}
void clear_interrupt() {
  requested = 0;
}

}  // namespace copylab
