// head_gradient: how much of the logit gradient the LM head passes back to the hidden states.
#pragma once

#include "experiments/measures/head_sample.h"

namespace copylab {

// Lost in Backpropagation, §1.2 of its measurements: with the orthogonal projection P on the columns of W,
// G·P is visible to the hidden states and the rest back-propagates to zero. Norms are Frobenius norms over
// all positions; "token" means per position, then averaged.
struct HeadGradient {
  int64_t rank;                      // of W
  double r;                          // ‖G - G·P‖ / ‖G‖, the share of the norm that is lost
  double c;                          // ⟨G, G·P⟩ / (‖G‖ ‖G·P‖), the cosine, computed on its own
  double token_r_mean, token_r_std;  // per position
  double token_c_mean, token_c_std;
};
HeadGradient head_gradient(const HeadSample& sample);

extern const MeasureEntry head_gradient_measure;

}  // namespace copylab
