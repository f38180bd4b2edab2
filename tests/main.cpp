// Entry point of the test program. Called as `copylab_tests worker FOLDER [--parent FOLDER]` it is the worker
// that the tests of killing and resuming start and kill.
#include <cstring>

#include "experiments/train/worker.h"

#ifdef COPYLAB_CATCH3
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  if (argc >= 3 && std::strcmp(argv[1], "worker") == 0)
    return copylab::run_worker(argv[2], argc == 5 ? argv[4] : "");
  return Catch::Session().run(argc, argv);
}
