// Random: Philox against the published vectors, and the ranges of the derived draws.
#include "core/random.h"

#include "tests/catch.h"

using namespace copylab;

TEST_CASE("philox gives the vectors of Random123's kat_vectors", "[random]") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("draws are addressed by index, purpose, seed and step", "[random]") {
  const Random a(1, "x"), b(1, "y"), c(2, "x"), d(1, "x", 1);
  CHECK(a.bits(5) == Random(1, "x").bits(5));
  CHECK(a.bits(5) != a.bits(6));
  CHECK(a.bits(5) != b.bits(5));
  CHECK(a.bits(5) != c.bits(5));
  CHECK(a.bits(5) != d.bits(5));
}

TEST_CASE("uniform, below and normal have the right moments", "[random]") {
  const Random r(7, "moments");
  const int n = 100000;
  double mean = 0, normal_mean = 0, normal_square = 0;
  int counts[7] = {};
  for (int i = 0; i < n; ++i) {
    const double u = r.uniform(i);
    REQUIRE(u >= 0.0);
    REQUIRE(u < 1.0);
    mean += u / n;
    ++counts[r.below(i, 7)];
    const double z = r.normal(i);
    normal_mean += z / n;
    normal_square += z * z / n;
  }
  CHECK(mean == Approx(0.5).margin(0.005));
  CHECK(normal_mean == Approx(0.0).margin(0.02));
  CHECK(normal_square == Approx(1.0).margin(0.03));
  for (int count : counts) CHECK(count == Approx(n / 7.0).margin(600));
}
