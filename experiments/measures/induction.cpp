// induction: losses on random tokens shown twice, and which heads attend along the induction stripe.
#include "experiments/measures/induction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/measures/repeats.h"

namespace copylab {
namespace {

// There is no standard; these are the ones in use (papers: §5.3).
const std::vector<double> kThresholds = {0.2, 0.3, 0.4, 0.5};

std::vector<Field> fields() {
  return {
      {"measure.induction.blocks", std::vector<int64_t>{},
       "block lengths T, ascending, of different tokens each; empty = 8, 16, .. up to half the length of the "
       "task's sequences. Longer "
       "ones run at positions that the model was not trained for"},
      {"measure.induction.score_block", int64_t{0}, "block length of the heads' scores; 0 = the largest", 0,
       1 << 18},
      {"measure.induction.sequences", int64_t{32}, "sequences of each block length", 1, 1 << 20},
      {"measure.induction.ids", std::vector<int64_t>{},
       "first and last id that tokens are drawn from; empty = the whole vocabulary"},
  };
}

// The settings, checked.
struct Asked {
  std::pair<int64_t, int64_t> ids;
  std::vector<int64_t> blocks;
  int64_t score_block, sequences;

  explicit Asked(const MeasureInput& in)
      : ids(id_range(in.settings.integers("measure.induction.ids"), in.task.vocab(), "induction")),
        blocks(in.settings.integers("measure.induction.blocks")),
        score_block(in.settings.integer("measure.induction.score_block")),
        sequences(in.settings.integer("measure.induction.sequences")) {
    const int64_t count = ids.second - ids.first + 1;
    if (blocks.empty()) blocks = default_blocks(in.task, ids);
    expect_config(
        blocks.front() >= 2 && std::is_sorted(blocks.begin(), blocks.end()) && blocks.back() <= count,
        "measure.induction.blocks: ascending lengths of 2..{} expected, the number of ids", count);
    if (score_block == 0) score_block = blocks.back();
    expect_config(score_block >= 2 && score_block <= count,
                  "measure.induction.score_block: a length of 2..{} expected, the number of ids: got {}",
                  count, score_block);
  }
};

void report_losses(const MeasureInput& in, const std::vector<int64_t>& blocks, Repeats repeats,
                   int64_t sequences, MeasureOutput& out) {
  std::vector<double> natural, no_copy, force_copy, reachable, first_copy, by_position, no_copy_by_position;
  bool pointer = false;
  for (const int64_t block : blocks) {
    repeats.block = block;
    RepeatLosses losses = repeat_losses(in.model, repeats, sequences, true);
    pointer = losses.pointer;
    natural.push_back(losses.natural);
    no_copy.push_back(losses.no_copy);
    force_copy.push_back(losses.force_copy);
    reachable.push_back(losses.reachable);
    first_copy.push_back(losses.first_copy);
    by_position = std::move(losses.by_position);
    no_copy_by_position = std::move(losses.no_copy_by_position);
    out.scalar(fmt::format("nll_T{}", block), losses.natural,
               fmt::format("loss of inducible tokens, T = {}, nats", block));
  }
  const int64_t n = static_cast<int64_t>(blocks.size()), positions = static_cast<int64_t>(by_position.size());
  const std::vector<double> as_numbers(blocks.begin(), blocks.end());
  out.coordinate("block", as_numbers);
  out.array("nll", natural, {n}, {"block"}, "loss of r_2..r_T of the second copy, nats");
  out.array("first_copy_nll", first_copy, {n}, {"block"}, "loss of r_2..r_T of the first copy, nats");
  std::vector<double> places(positions);
  std::iota(places.begin(), places.end(), 1.0);
  out.coordinate("position", places);
  out.array("nll_by_position", by_position, {positions}, {"position"},
            "loss of token `position` of the longest sequences, counted from 0; inducible behind T, nats");
  const auto worst = std::max_element(natural.begin(), natural.end());
  out.scalar("nll_worst", *worst, "the largest of nll over block lengths, nats");
  out.scalar("nll_uniform", std::log(static_cast<double>(repeats.ids.second - repeats.ids.first + 1)),
             "loss of a uniform guess among the ids drawn from, nats");
  if (!pointer) return;
  out.array("no_copy_nll", no_copy, {n}, {"block"}, "nll of the LM head alone, nats");
  out.array("force_copy_nll", force_copy, {n}, {"block"},
            "nll of the pointer alone, where it can reach, nats");
  out.array("force_copy_reachable", reachable, {n}, {"block"}, "share of targets that the pointer can reach");
  out.array("no_copy_nll_by_position", no_copy_by_position, {positions}, {"position"},
            "nll_by_position of the LM head alone, nats");
}

void report_scores(const MeasureInput& in, const Repeats& repeats, int64_t sequences, MeasureOutput& out) {
  const RepeatScores scores = score_heads(in.model, repeats, sequences);
  double uniform = 0;  // a position sees itself and all before it
  for (int64_t i = repeats.block; i < 2 * repeats.block; ++i) uniform += 1.0 / static_cast<double>(i + 1);
  out.scalar("score_uniform", uniform / static_cast<double>(repeats.block),
             "induction score of attention that is the same for every position");
  out.scalar("score_block", static_cast<double>(repeats.block), "block length T of the scores");
  const HeadScores& heads = scores.heads;
  if (heads.layers > 0) {
    const std::vector<int64_t> shape = {heads.layers, heads.heads};
    const std::vector<std::string> dims = {"layer", "head"};
    out.array("score", heads.induction, shape, dims,
              "induction score: mean attention i -> i-(T-1) over the second copy");
    out.array("previous_score", heads.previous, shape, dims, "mean attention i -> i-1");
    out.array("duplicate_score", heads.duplicate, shape, dims,
              "mean attention i -> i-T over the second copy");
    std::vector<double> counts;
    for (const double threshold : kThresholds) {
      counts.push_back(static_cast<double>(std::count_if(heads.induction.begin(), heads.induction.end(),
                                                         [&](double s) { return s > threshold; })));
      out.scalar(fmt::format("heads_above_{}", threshold), counts.back(),
                 fmt::format("heads with an induction score above {}", threshold));
    }
    out.coordinate("threshold", kThresholds);
    out.array("heads_above", counts, {static_cast<int64_t>(counts.size())}, {"threshold"},
              "heads with an induction score above the threshold");
    out.scalar("heads", static_cast<double>(heads.induction.size()), "attention heads of the backbone");
    out.scalar("score_sum", std::accumulate(heads.induction.begin(), heads.induction.end(), 0.0),
               "sum of the induction scores");
    out.scalar("score_best", *std::max_element(heads.induction.begin(), heads.induction.end()),
               "largest induction score of a head");
  }
  if (!scores.pointer) return;
  const PointerScores& copy = scores.copy_head;
  out.scalar("copy_head_score", copy.induction,
             "the pointer's weight on i-(T-1) over the second copy, out of 1 with the sink");
  out.scalar("copy_head_gated_score", copy.gated, "that times the gate");
  out.scalar("copy_head_gate", copy.gate, "mean gate over the second copy");
  out.scalar("copy_head_sink", copy.sink, "mean weight of the sink over the second copy");
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const Asked asked(in);
  report_losses(in, asked.blocks, {in.seed, 0, asked.ids}, asked.sequences, out);
  report_scores(in, {in.seed, asked.score_block, asked.ids}, asked.sequences, out);
}

double plan(const MeasureInput& in) {
  const Asked asked(in);
  double flops = plan_repeats(in, asked.score_block, asked.sequences);
  for (const int64_t block : asked.blocks) flops += plan_repeats(in, block, asked.sequences);
  return flops;
}

}  // namespace

const MeasureEntry induction_measure = {
    "induction", "losses on random tokens shown twice, and induction scores of all heads (C32-C34)", fields,
    run, plan};

}  // namespace copylab
