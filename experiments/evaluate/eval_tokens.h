// Per-position results of a finished run on token sequences of the user.
#pragma once

#include <filesystem>

namespace copylab {

// `tokens` holds /tokens (B, T) integers, or (steps, B, T) as `copylab data` writes them, then step after
// step; and optionally /targets of the same shape, negative = no label. Without targets the target of a
// position is the next token, and the last position has none. Sequences are independent of each other, except
// that for a run on streams sequence b of a step continues sequence b of the step before, unless /fresh
// (steps) says that the streams start anew; /advance (steps) is how many positions later the next step
// begins, the whole length where it is missing. Writes to `out`, each (B, T): nll, argmax (natural), and for
// a head with a pointer also no_copy_nll, no_copy_argmax, force_copy_nll, force_copy_argmax, gate, sink. NaN
// or -1 where there is no label. Throws Error for ids outside of the vocabulary and for sequences longer than
// the run's.
void eval_tokens(const std::filesystem::path& run, const std::filesystem::path& tokens,
                 const std::filesystem::path& out);

}  // namespace copylab
