// Counting of SIGINT and SIGTERM.
#include "experiments/schedule/interrupt.h"

#include <csignal>

namespace copylab {
namespace {

volatile std::sig_atomic_t count = 0;
struct sigaction before_int, before_term;

void on_signal(int) {
  count = count + 1;
}

}  // namespace

CatchInterrupts::CatchInterrupts() {
  count = 0;
  struct sigaction action = {};
  action.sa_handler = on_signal;  // without SA_RESTART: waiting calls return
  sigaction(SIGINT, &action, &before_int);
  sigaction(SIGTERM, &action, &before_term);
}

CatchInterrupts::~CatchInterrupts() {
  sigaction(SIGINT, &before_int, nullptr);
  sigaction(SIGTERM, &before_term, nullptr);
}

int interrupts() {
  return count;
}

}  // namespace copylab
