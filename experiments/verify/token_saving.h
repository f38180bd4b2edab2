// Token saving: how many times fewer tokens one training run needs to reach what another one reached.
#pragma once

#include <vector>

namespace copylab {

// A value that training lowers, after a number of tokens; tokens ascend.
struct Curve {
  std::vector<double> tokens, values;
};

// S = N_reference / N (papers: claims ledger L.0). N_reference is the last point of `reference` at or before
// `last_tokens` (the start of the cooldown), N the tokens at which `curve` first comes down to the
// reference's value there, interpolated linearly between points. Where `curve` does not come down to it
// before `last_tokens`, the roles are exchanged: S = (tokens at which the reference first reached the lowest
// value of `curve`) / N_reference, below 1. NaN where neither is defined.
double token_saving(const Curve& curve, const Curve& reference, double last_tokens);

}  // namespace copylab
