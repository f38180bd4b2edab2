// Which GPUs a build runs on.
#include "core/cuda/architectures.h"
#include "tests/catch.h"

using copylab::cuda::runs_on;

TEST_CASE("a build runs on the GPUs that its code, or its PTX, is for", "[cuda]") {
  const std::string shipped = "80-real 90 120";
  CHECK_FALSE(runs_on(shipped, 7, 5));
  CHECK(runs_on(shipped, 8, 0));
  CHECK(runs_on(shipped, 8, 9));
  CHECK(runs_on(shipped, 9, 0));
  CHECK(runs_on(shipped, 10, 0));  // PTX of 9.0
  CHECK(runs_on(shipped, 12, 1));
  CHECK_FALSE(runs_on("80-real", 9, 0));
  CHECK_FALSE(runs_on("86", 8, 0));
  CHECK(runs_on("86-virtual", 12, 0));
  CHECK(runs_on("90a", 9, 0));
  CHECK_FALSE(runs_on("90a", 10, 0));
  CHECK(runs_on("100f", 10, 3));
  CHECK_FALSE(runs_on("100f", 12, 0));
  CHECK(runs_on("native", 9, 0));
}
