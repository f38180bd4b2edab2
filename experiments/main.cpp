// The copylab program; everything it does is a verb of experiments/cli/.
#include "experiments/cli/verbs.h"

int main(int argc, char** argv) {
  return copylab::run_cli(argc, argv);
}
