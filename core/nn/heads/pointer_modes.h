// What heads with a pointer share in evaluation: the pointer alone (force_copy), and the most probable
// tokens.
#pragma once

#include "core/nn/head.h"
#include "core/ops/lm_head.h"
#include "core/ops/pointer.h"

namespace copylab::nn {

// The distinct tokens of each sequence and of its memory, as candidates for the most probable token: outside
// of them the mixture is proportional to the LM head, whose own argmax is known.
struct Candidates {
  int64_t per_row = 0;       // the most that any sequence has
  int64_t length = 1;        // T
  std::vector<int32_t> ids;  // (B, per_row), ascending, -1 behind a sequence's last
  const int32_t* of_row(int64_t row) const { return ids.data() + row / length * per_row; }
};

// None unless in.want_argmax.
Candidates find_candidates(Tape& tape, const HeadInput& in);

// Fills copy_nll and the three argmax outputs on the host; ties go to the smaller token. `lm` holds the
// logits of the candidates behind `fixed` other columns, `pointer` its weights, and `out` gate, sink and
// log_copy. `drop_sink`: the sink's mass does not go back to the LM head.
void decide(Tape& tape, const HeadInput& in, const Candidates& candidates, const ops::LmHeadResult& lm,
            int64_t fixed, const ops::PointerResult& pointer, bool drop_sink, HeadOutput& out);

}  // namespace copylab::nn
