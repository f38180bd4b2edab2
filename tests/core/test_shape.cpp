// Shape: sizes, rows, printing, and the limits.
#include "core/shape.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using copylab::test::error_of;

TEST_CASE("shapes count elements and rows", "[shape]") {
  const Shape s{2, 3, 4};
  CHECK(s.rank() == 3);
  CHECK(s.size() == 24);
  CHECK(s.rows() == 6);
  CHECK(s[0] == 2);
  CHECK(s[-1] == 4);
  CHECK(s[-3] == 2);
  CHECK(Shape{}.size() == 1);  // a scalar
  CHECK(Shape{}.rows() == 1);
  CHECK(Shape{5}.rows() == 1);
  CHECK(Shape{0, 3}.size() == 0);
  CHECK(Shape{0, 3}.rows() == 0);
  CHECK(Shape{3, 0}.rows() == 0);
}

TEST_CASE("shapes compare by rank and sizes", "[shape]") {
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK(Shape{2, 3} != Shape{3, 2});
  CHECK(Shape{2} != Shape{2, 1});
  CHECK(Shape{2} != Shape{2, 0});  // unused entries are 0 as well
}

TEST_CASE("shapes derive others", "[shape]") {
  CHECK(Shape{2, 3}.with_last(7) == Shape{2, 7});
  CHECK(Shape{2, 3}.append(7) == Shape{2, 3, 7});
  CHECK(Shape{}.append(7) == Shape{7});
}

TEST_CASE("shapes print as Python tuples", "[shape]") {
  CHECK(Shape{}.str() == "()");
  CHECK(Shape{5}.str() == "(5,)");
  CHECK(Shape{2, 3, 4}.str() == "(2, 3, 4)");
}

TEST_CASE("shapes name what is wrong", "[shape][errors]") {
  CHECK(error_of([] { Shape{1, 2, 3, 4, 5}; }) == "[shape] at most 4 dimensions: got 5");
  CHECK(error_of([] { Shape{2, -1}; }) == "[shape] sizes must not be negative: got -1");
  const std::vector<Shape> scalars(1);  // out of the compiler's sight: it would refuse this at build time
  CHECK(error_of([&] { scalars[0].with_last(2); }) == "[shape] a scalar has no last dimension");
  CHECK(error_of([] {
          Shape{1, 2, 3, 4}.append(5);
        }) == "[shape] at most 4 dimensions: got (1, 2, 3, 4) and one more");
}
