// Bootstrap only: kernels that have no file yet. A line goes when its file comes; the file goes with the
// last.
#include "core/cpu/kernels.h"

#define MISSING(name)                                                    \
  template <class T>                                                     \
  void copylab::cpu::fill_##name(copylab::KernelTable<T>&) {}            \
  template void copylab::cpu::fill_##name(copylab::KernelTable<float>&); \
  template void copylab::cpu::fill_##name(copylab::KernelTable<double>&);

MISSING(lstm)
