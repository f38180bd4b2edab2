// Entry point of the test program. Called as `copylab_tests worker FOLDER [--parent FOLDER]` it is the worker
// that the tests of killing and resuming start and kill, and as `copylab_tests variable NAME` it prints a
// variable of the environment that it came to run in.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "experiments/schedule/process.h"
#include "experiments/train/worker.h"

#ifdef COPYLAB_CATCH3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#ifdef __SANITIZE_ADDRESS__
// HDF5 1.10 itself leaks a page when a file cannot be completed, which the tests of a full disk bring about.
// A forked child lacks the OpenMP threads of its parent, so that their thread-local buffers look leaked in
// it.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libhdf5\nleak:__cxa_thread_atexit_impl\n";
}
extern "C" const char* __lsan_default_options() {
  return "print_suppressions=0";
}
#endif

int main(int argc, char** argv) {
  copylab::spin_shortly(argv);
  if (argc == 3 && std::strcmp(argv[1], "variable") == 0) {
    const char* value = std::getenv(argv[2]);
    return std::puts(value ? value : "unset") < 0;
  }
  if (argc >= 3 && std::strcmp(argv[1], "worker") == 0)
    return copylab::run_worker(argv[2], argc == 5 ? argv[4] : "");
  return Catch::Session().run(argc, argv);
}
