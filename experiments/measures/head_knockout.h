// head_knockout: what is lost when attention heads, or the pointer, are switched off.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

// Attention heads switched off for the life of this object: their columns of blocks.{i}.attn.o.weight are
// zero, so that nothing of them reaches the residual stream. The destructor puts the same bits back.
class Knockout {
 public:
  // `places` count heads through the layers: layer · heads + head.
  Knockout(nn::Model& model, const std::vector<int64_t>& places, int64_t heads);
  ~Knockout();
  Knockout(const Knockout&) = delete;
  Knockout& operator=(const Knockout&) = delete;

 private:
  const Backend& backend_;
  std::vector<std::pair<Tensor, std::vector<std::byte>>> saved_;  // weights and what they held
};

extern const MeasureEntry head_knockout_measure;

}  // namespace copylab
