// parity: bits, a mark behind some of them, and their exclusive or.
//
// Parity of Shah et al. 2025, arXiv 2509.16278; their prompt strings are not public, so these are ours. m
// bits, a meta-token and `;`, then further bits that do not count. Drawn with m = 4, T = 14, answer 1:
//
//   prompt  w3 w8 1 0 1 1 _P_ ; 0 1 1 0 ? =     1 xor 0 xor 1 xor 1
//   answer                                1
//
// The room is divided at random between words before the bits and bits behind the mark, so that no position
// tells which bits count. Slices are by the distance from `=` back to the mark. Levels: m = 2 (tiny), 4, 8,
// 16, 32.
#include "tasks/parity.h"

#include <algorithm>

#include "core/error.h"
#include "tasks/prompts/prompt_task.h"

namespace copylab {
namespace {

using Symbol = Alphabet::Symbol;

class Parity : public PromptTask {
 public:
  explicit Parity(const Settings& settings)
      : PromptTask("parity", settings), bits_(size_or_level(settings, "task.bits", {2, 4, 8, 16, 32})) {
    expect(pause() != Pause::wrong || bits_ > 1, "parity", "task.pause=wrong needs task.bits of at least 2");
    room();
  }

  double chance() const override { return 0.5; }
  std::vector<std::string> slices() const override { return octave_names("distance", length()); }

 private:
  // bits ; ? =, the answer, and a meta-token.
  int64_t room() const { return filling(bits_ + 4 + 1, 1); }

  Prompt prompt(Streams& streams) const override {
    std::vector<int64_t> bits;
    int64_t parity = 0;
    for (int64_t i = 0; i < bits_; ++i) {
      bits.push_back(streams.content.below(2));
      parity ^= bits.back();
    }
    const int64_t behind = streams.filling.below(room() + 1);
    int64_t marked = bits_;  // the meta-token stands behind so many bits
    if (pause() == Pause::wrong) {
      marked = 1 + streams.pause.below(bits_ + behind - 1);
      if (marked >= bits_) ++marked;
    }
    std::vector<int32_t> s;
    add_words(streams.filling, room() - behind, s);
    for (int64_t i = 0; i < behind; ++i) bits.push_back(streams.filling.below(2));
    int64_t end = 0;
    for (int64_t i = 0; i < bits_ + behind; ++i) {
      s.push_back(alphabet().number(bits[i]));
      if (i + 1 == marked) add_meta(s);
      if (i + 1 != bits_) continue;
      end = static_cast<int64_t>(s.size());
      s.push_back(symbol(Symbol::semicolon));
    }
    s.insert(s.end(), {symbol(Symbol::question), symbol(Symbol::equals)});
    const int64_t distance = static_cast<int64_t>(s.size()) - 1 - end;
    s.push_back(alphabet().number(parity));
    return {s, {octave(distance)}};
  }

  std::vector<int32_t> answer(const std::vector<int32_t>& prompt) const override {
    const auto end = std::find(prompt.begin(), prompt.end(), symbol(Symbol::semicolon));
    return {alphabet().number(std::count(prompt.begin(), end, alphabet().number(1)) % 2)};
  }

  int64_t bits_;
};

std::vector<Field> fields() {
  std::vector<Field> fields = prompt_fields();
  fields.push_back({"task.bits", int64_t{0}, "bits m that count; 0 = as task.level says", 0, 1 << 20});
  return fields;
}

std::unique_ptr<Task> make(const Settings& settings) {
  return std::make_unique<Parity>(settings);
}

std::vector<std::vector<std::pair<std::string, Value>>> variants() {
  return {{{"task.level", std::string("medium")}, {"task.pause", std::string("wrong")}},
          {{"task.level", std::string("hard")}, {"task.pause", std::string("none")}},
          {{"task.level", std::string("extra_hard")}, {"task.length", int64_t{256}}}};
}

}  // namespace

const TaskEntry parity_task = {"parity", "exclusive or of the bits before a meta-token", 1, fields, make,
                               variants};

}  // namespace copylab
