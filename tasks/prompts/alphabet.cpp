// Alphabet: the readable form of its ids.
#include "tasks/prompts/alphabet.h"

namespace copylab {

std::string Alphabet::text(int32_t id) const {
  if (is_word(id)) return "w" + std::to_string(id);
  if (is_number(id)) return std::to_string(value(id));
  return id == meta() ? "_P_" : std::string(1, ":;?=[]#L"[id - words_ - kNumbers]);
}

}  // namespace copylab
