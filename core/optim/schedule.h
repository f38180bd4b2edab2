// Schedule: the learning rate of each update.
#pragma once

#include <cstdint>
#include <string>

namespace copylab::optim {

// warm-up is linear to `lr` in all kinds; step counts updates from 0, so that the first one is not at rate 0.
//   wsd       lr until the last `decay` updates, then linear to min_lr (SmolLM2: to 0)
//   cosine    half a cosine from lr to min_lr
//   constant  lr
//   plateau   lr, halved whenever the validation loss is worse than the best so far (PSM §3.3; see Plateau)
struct Schedule {
  enum class Kind { wsd, cosine, constant, plateau };

  Kind kind = Kind::wsd;
  double lr = 0;
  double min_lr = 0;   // absolute
  int64_t steps = 0;   // updates in all
  int64_t warmup = 0;  // updates
  int64_t decay = 0;   // updates, wsd only

  double at(int64_t step) const;
};

Schedule::Kind schedule_kind(const std::string& name);  // throws Error for an unknown name

// Halves the learning rate when validation gets worse; its two numbers are part of a checkpoint.
struct Plateau {
  double factor = 1.0;  // multiplies Schedule::at
  double best = 0.0;    // lowest validation loss so far; meaningful once `seen`
  bool seen = false;

  void report(double valid_loss);
};

}  // namespace copylab::optim
