// mixture_rank: numerical rank of logits, of log-softmax, and of the log of a copy head's mixture.
#pragma once

#include "experiments/measures/pointer_trace.h"

namespace copylab {

// log p of the mixture at position t over the whole vocabulary: log_softmax (V) of the LM head there, gate,
// sink and weights from the trace. `drop_sink`: the sink's mass is lost (variant B of papers §2.5).
Eigen::RowVectorXd log_mixture(const PointerTrace& trace, int64_t t, const Eigen::RowVectorXd& log_softmax,
                               bool drop_sink);

extern const MeasureEntry mixture_rank_measure;

}  // namespace copylab
