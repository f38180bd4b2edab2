// The backend that golden values are compared on in copylab_tests; tests/emulator has its own.
#include <cstdlib>
#include <string>

#include "tests/core/golden.h"

namespace copylab::test {

const Backend& golden_backend() {
  const char* name = std::getenv("COPYLAB_TEST_BACKEND");
  if (!name || std::string(name) == "cpu") return cpu_backend();
  expect(std::string(name) == "cuda", "golden", "COPYLAB_TEST_BACKEND: cpu or cuda expected, got {}", name);
  const char* why = "";
  const Backend* cuda = cuda_backend(&why);
  expect(cuda != nullptr, "golden", "COPYLAB_TEST_BACKEND=cuda: {}", why);
  return *cuda;
}

}  // namespace copylab::test
