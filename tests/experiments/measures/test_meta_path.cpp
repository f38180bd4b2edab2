// meta_path and meta_zero: which paths are open, by hand.
#include "experiments/measures/meta_path.h"

#include "tests/catch.h"

using namespace copylab;

TEST_CASE("open paths by hand", "[measures]") {
  Batch b = blank_batch(1, 5);
  b.tokens = {10, 99, 20, 99, 30};  // a word, a meta-token, the question, its meta-token, =
  b.meta = {0, 1, 0, 1, 0};
  using Bits = std::vector<uint8_t>;
  const Bits causal = {1, 0, 0, 0, 0,  //
                       1, 1, 0, 0, 0,  //
                       1, 1, 1, 0, 0,  //
                       1, 1, 1, 1, 0,  //
                       1, 1, 1, 1, 1};
  CHECK(open_paths(b, 20, false, false) == causal);
  CHECK(open_paths(b, 20, true, false) == Bits{1, 0, 0, 0, 0,  //
                                               1, 1, 0, 0, 0,  //
                                               0, 1, 1, 0, 0,  //
                                               0, 1, 1, 1, 0,  //
                                               0, 1, 1, 1, 1});
  CHECK(open_paths(b, 20, false, true) == Bits{1, 0, 0, 0, 0,  //
                                               1, 1, 0, 0, 0,  //
                                               1, 0, 1, 0, 0,  //
                                               1, 0, 1, 1, 0,  //
                                               1, 0, 1, 0, 1});
  CHECK(open_paths(b, 20, true, true) == Bits{1, 0, 0, 0, 0,  //
                                              1, 1, 0, 0, 0,  //
                                              0, 0, 1, 0, 0,  //
                                              0, 0, 1, 1, 0,  //
                                              0, 0, 1, 0, 1});
  CHECK(open_paths(b, 77, true, true) == causal);  // no question, nothing to block
}
