// Schedule: warm-up-stable-decay, cosine, constant, and halving on a plateau.
#include "core/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace copylab::optim {

double Schedule::at(int64_t step) const {
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  switch (kind) {
    case Kind::constant:
    case Kind::plateau:
      return lr;
    case Kind::wsd: {
      const int64_t left = steps - step;  // updates still to come, this one included
      if (left >= decay) return lr;
      return min_lr + (lr - min_lr) * static_cast<double>(left) / static_cast<double>(decay);
    }
    case Kind::cosine: {
      constexpr double kPi = 3.14159265358979323846;
      const double span = static_cast<double>(std::max<int64_t>(1, steps - warmup));
      const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
      return min_lr + (lr - min_lr) * 0.5 * (1.0 + std::cos(kPi * done));
    }
  }
  return lr;
}

Schedule::Kind schedule_kind(const std::string& name) {
  if (name == "wsd") return Schedule::Kind::wsd;
  if (name == "cosine") return Schedule::Kind::cosine;
  if (name == "constant") return Schedule::Kind::constant;
  if (name == "plateau") return Schedule::Kind::plateau;
  throw Error("[schedule] wsd, cosine, constant or plateau expected: got " + name);
}

void Plateau::report(double valid_loss) {
  if (seen && !(valid_loss <= best)) factor *= 0.5;
  best = seen ? std::min(best, valid_loss) : valid_loss;
  seen = true;
}

}  // namespace copylab::optim
