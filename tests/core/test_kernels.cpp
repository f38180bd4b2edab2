// The kernel tables of the CPU backend are complete, for both types.
#include <cstring>

#include "core/backend.h"
#include "tests/catch.h"

using namespace copylab;

TEMPLATE_TEST_CASE("every kernel of the CPU backend is there", "[kernels]", float, double) {
  // A table holds function pointers only, so it can be walked as such.
  const KernelTable<TestType>& table = cpu_backend().kernels<TestType>();
  using Function = void (*)();
  static_assert(sizeof(table) % sizeof(Function) == 0);
  for (size_t i = 0; i < sizeof(table) / sizeof(Function); ++i) {
    Function function;
    std::memcpy(&function, reinterpret_cast<const char*>(&table) + i * sizeof(Function), sizeof(Function));
    INFO("entry " << i << " of KernelTable");
    CHECK(function != nullptr);
  }
}
