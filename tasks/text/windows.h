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
  // `starts` as in TokenStream; T = `length` targets a window. A shifting grid moves document by document, as
  // far as the room in the last window allows; a document of at least 64 windows gets one more where that
  // lets it move further.
  Windows(const std::vector<int64_t>& starts, int64_t length, bool shifting);

  struct Window {
    int64_t first;  // index of the first token; the first target is the token after it
    int64_t count;  // targets, 1..T
  };
  int64_t size() const { return first_window_.back(); }
  int64_t targets() const { return targets_; }
  // Window i of the grid that `shift` draws (draw d for document d), if it shifts; else it starts with each
  // document.
  Window at(int64_t i, const Random& shift) const;

 private:
  int64_t length_, targets_ = 0;
  bool shifting_;
  std::vector<int64_t> start_, count_;  // of each document that has targets: first token, number of targets
  std::vector<int64_t> first_window_;   // number of its first window, then the number of windows
};

// Where i goes in a random order of 0..n-1: a permutation for every key (a Feistel network of four rounds
// over the next power of four, walked until the result is below n). Needs no memory.
int64_t permuted(const Random& key, int64_t i, int64_t n);

}  // namespace copylab::text
