// two_dimensions: two hidden dimensions suffice to put any token on top.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

// Lost in Backpropagation, Prop. 3: output rows w_v = (cos, sin)(2πv/V). A context that should give token v
// has h = w_v, whose logits cos(2π(u-v)/V) are largest at u = v. Any map from contexts to tokens is then
// possible.
struct CircleHead {
  double accuracy;  // share of the V tokens that are on top of their own h, ties counting as wrong
  double margin;    // smallest difference between the largest and the second largest logit
};
// In float or double arithmetic.
template <class T>
CircleHead circle_head(int64_t vocab);

extern const MeasureEntry two_dimensions_measure;

}  // namespace copylab
