// The copylab program; everything it does is a verb of experiments/cli/.
#include "experiments/cli/verbs.h"
#include "experiments/schedule/process.h"

int main(int argc, char** argv) {
  copylab::spin_shortly(argv);
  return copylab::run_cli(argc, argv);
}
