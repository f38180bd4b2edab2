// Prompts from their written form, and a task's sequences in it: what the tests of the meta-token tasks
// share.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tasks/prompts/alphabet.h"
#include "tasks/task.h"
#include "tests/catch.h"

namespace copylab::testing {

// "L 2 : w5 _P_" as ids.
inline std::vector<int32_t> ids_of(const std::string& written, const Alphabet& alphabet) {
  std::vector<int32_t> ids;
  std::istringstream in(written);
  for (std::string word; in >> word;) {
    int32_t id = 0;
    while (id < alphabet.vocab() && alphabet.text(id) != word) ++id;
    INFO(word);
    REQUIRE(id < alphabet.vocab());
    ids.push_back(id);
  }
  return ids;
}

// One sequence of a prompt, up to and including `=`, and its answer, both written.
inline Batch written_batch(const Task& task, const std::string& prompt, const std::string& answer) {
  const Alphabet alphabet(task.vocab());
  std::vector<int32_t> symbols = ids_of(prompt, alphabet);
  const std::vector<int32_t> asked = ids_of(answer, alphabet);
  const size_t first = symbols.size() - 1;  // the position of `=`
  symbols.insert(symbols.end(), asked.begin(), asked.end());
  REQUIRE(static_cast<int64_t>(symbols.size()) == task.length() + 1);
  Batch b = blank_batch(1, task.length());
  for (int64_t t = 0; t < b.length; ++t) b.tokens[t] = symbols[t];
  for (size_t i = 0; i < asked.size(); ++i) b.targets[first + i] = asked[i];
  return b;
}

// The drawn example of a task: the solver answers it, and `show` writes it.
inline void check_example(const Task& task, const std::string& prompt, const std::string& answer) {
  const Batch b = written_batch(task, prompt, answer);
  const std::vector<int32_t> found = task.solve(b);
  for (int64_t t = 0; t < b.length; ++t) {
    INFO(t);
    CHECK((found[t] < 0) == (b.targets[t] < 0));
    if (b.targets[t] >= 0) CHECK(found[t] == b.targets[t]);
  }
  CHECK(task.show(b, 0) == "prompt " + prompt + "\nanswer " + answer + "\n");
}

// A sequence as its written symbols: T tokens and the last target.
inline std::vector<std::string> symbols_of(const Task& task, const Batch& b, int64_t row) {
  const Alphabet alphabet(task.vocab());
  std::vector<std::string> out;
  for (int64_t t = 0; t < b.length; ++t) out.push_back(alphabet.text(b.tokens[row * b.length + t]));
  out.push_back(alphabet.text(b.targets[(row + 1) * b.length - 1]));
  return out;
}

inline int64_t place_of(const std::vector<std::string>& symbols, const std::string& what, int64_t from = 0) {
  return std::find(symbols.begin() + from, symbols.end(), what) - symbols.begin();
}

using Changes = std::vector<std::pair<std::string, Value>>;

}  // namespace copylab::testing
