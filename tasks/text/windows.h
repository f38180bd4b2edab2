// Windows: a token stream cut into pieces of T predictions, numbered, and a keyed order of such numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"

namespace copylab::text {

// Documents of n tokens have n - 1 targets, since their first token has no context. The windows of a document
// hold each of its targets once; a document with fewer than two tokens has none. How many windows a document
// has does not depend on where their grid lies, so that every epoch has equally many.
class Windows {
 public:
  // `starts` as in TokenStream; T = `length` targets a window.
  Windows(const std::vector<int64_t>& starts, int64_t length);

  struct Window {
    int64_t first;  // index of the first token; the first target is the token after it
    int64_t count;  // targets, 1..T
  };
  int64_t size() const { return first_window_.back(); }
  int64_t targets() const { return targets_; }
  // Window i of the fixed grid, which starts with each document.
  Window at(int64_t i) const { return window(i, nullptr); }
  // Window i of a grid that `shift` moves, document by document.
  Window at(int64_t i, const Random& shift) const { return window(i, &shift); }

 private:
  Window window(int64_t i, const Random* shift) const;

  int64_t length_, targets_ = 0;
  std::vector<int64_t> start_, count_;  // of each document that has targets: first token, number of targets
  std::vector<int64_t> first_window_;   // number of its first window, then the number of windows
};

// Where i goes in a random order of 0..n-1: a permutation for every key (a Feistel network of four rounds over
// the next power of four, walked until the result is below n). Needs no memory.
int64_t permuted(const Random& key, int64_t i, int64_t n);

}  // namespace copylab::text
