// meta_path: a run's answers when the question cannot see the prompt's words, or its meta-tokens.
#pragma once

#include "experiments/measures/measure.h"

namespace copylab {

extern const MeasureEntry meta_path_measure;

// What each row may see (B, T, T): itself and what is before it, but rows from the first token `question` on,
// which ask and answer, see of the prompt before it no words (all that is no meta-token) with block_words,
// and no meta-tokens but themselves with block_metas.
std::vector<uint8_t> open_paths(const Batch& batch, int32_t question, bool block_words, bool block_metas);

}  // namespace copylab
