// head_knockout: what is lost when attention heads, or the pointer, are switched off.
#include "experiments/measures/head_knockout.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "experiments/evaluate/split_walk.h"
#include "experiments/measures/repeats.h"

namespace copylab {

Knockout::Knockout(nn::Model& model, const std::vector<int64_t>& places, int64_t heads)
    : backend_(model.parameters().backend()) {
  std::set<int64_t> layers;
  for (const int64_t place : places) layers.insert(place / heads);
  for (const int64_t layer : layers) {
    const Tensor& weight = model.parameters().find(fmt::format("blocks.{}.attn.o.weight", layer)).tensor;
    dispatch_float(weight.dtype(), "knockout", [&](auto tag) {
      using T = decltype(tag);
      std::vector<T> host = to_host<T>(backend_, weight);
      const auto* bytes = reinterpret_cast<const std::byte*>(host.data());
      saved_.emplace_back(weight, std::vector<std::byte>(bytes, bytes + sizeof(T) * host.size()));
      const int64_t columns = weight.dim(1), head_dim = columns / heads;
      for (const int64_t place : places) {
        if (place / heads != layer) continue;
        for (int64_t row = 0; row < weight.dim(0); ++row)
          std::fill_n(host.begin() + row * columns + place % heads * head_dim, head_dim, T(0));
      }
      backend_.copy_in(weight.data<T>(), host.data(), sizeof(T) * host.size());
    });
  }
}

Knockout::~Knockout() {
  for (const auto& [weight, bytes] : saved_)
    dispatch_float(weight.dtype(), "knockout", [&, &w = weight, &b = bytes](auto tag) {
      backend_.copy_in(w.template data<decltype(tag)>(), b.data(), b.size());
    });
}

namespace {

std::vector<Field> fields() {
  return {
      {"measure.head_knockout.block", int64_t{0},
       "block length T of the repeated tokens; 0 = the largest of 8, 16, .. up to half the task's length", 0,
       1 << 18},
      {"measure.head_knockout.sequences", int64_t{16}, "sequences of repeated tokens", 1, 1 << 20},
      {"measure.head_knockout.test_sequences", int64_t{16}, "sequences of the task's test split", 1, 1 << 20},
      {"measure.head_knockout.top", std::vector<int64_t>{1, 2, 4},
       "numbers of heads to switch off together, by falling induction score; ascending"},
      {"measure.head_knockout.ids", std::vector<int64_t>{},
       "first and last id that repeated tokens are drawn from; empty = the whole vocabulary"},
  };
}

struct MeanLoss {
  double natural = 0, no_copy = 0;
};

MeanLoss test_loss(const MeasureInput& in, int64_t sequences) {
  constexpr int64_t kRows = 16;
  MeanLoss mean;
  double labels = 0;
  SplitWalk walk(in.task, Split::test, in.seed, sequences, kRows);
  while (walk.next()) {
    if (!walk.labelled()) continue;
    const Losses losses = losses_on(in.model, walk.batch(), false, nullptr, walk.carry());
    mean.natural += std::accumulate(losses.natural.begin(), losses.natural.end(), 0.0);
    mean.no_copy += std::accumulate(losses.no_copy.begin(), losses.no_copy.end(), 0.0);
    labels += static_cast<double>(losses.natural.size());
  }
  expect(labels > 0, "head_knockout", "test sequences with labels expected");
  return {mean.natural / labels, mean.no_copy / labels};
}

Repeats repeats_of(const MeasureInput& in) {
  const auto ids =
      id_range(in.settings.integers("measure.head_knockout.ids"), in.task.vocab(), "head_knockout");
  const int64_t asked = in.settings.integer("measure.head_knockout.block"),
                count = ids.second - ids.first + 1;
  const Repeats repeats = {in.seed, asked ? asked : default_blocks(in.task, ids).back(), ids};
  expect_config(repeats.block >= 2 && repeats.block <= count,
                "measure.head_knockout.block: a length of 2..{} expected, the number of ids: got {}", count,
                repeats.block);
  return repeats;
}

// Numbers of heads to switch off together. More than there are cannot be; the coordinate says which remain.
std::vector<int64_t> top_of(const MeasureInput& in, int64_t heads) {
  std::vector<int64_t> top = in.settings.integers("measure.head_knockout.top");
  std::erase_if(top, [&](int64_t k) { return k > heads; });
  expect_config(!top.empty() && top.front() > 0 && std::is_sorted(top.begin(), top.end()),
                "measure.head_knockout.top: ascending numbers of 1..{} heads expected", heads);
  return top;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const Repeats repeats = repeats_of(in);
  const int64_t sequences = in.settings.integer("measure.head_knockout.sequences");
  const int64_t test_sequences = in.settings.integer("measure.head_knockout.test_sequences");

  const RepeatScores scores = score_heads(in.model, repeats, sequences);
  const int64_t layers = scores.heads.layers, heads = scores.heads.heads, all = layers * heads;
  expect_config(all > 0, "[head_knockout] a backbone with attention heads expected");
  const RepeatLosses whole = repeat_losses(in.model, repeats, sequences);
  const MeanLoss whole_test = test_loss(in, test_sequences);
  out.scalar("repeat_nll", whole.natural, "loss of inducible tokens with every head, nats");
  out.scalar("test_nll", whole_test.natural, "loss of the task's test sequences with every head, nats");
  out.scalar("block", static_cast<double>(repeats.block), "block length T of the repeated tokens");

  // Changes of the natural loss, nats: on repeats and on the task.
  const auto without = [&](const std::vector<int64_t>& places) {
    const Knockout off(in.model, places, heads);
    return std::pair(repeat_losses(in.model, repeats, sequences).natural - whole.natural,
                     test_loss(in, test_sequences).natural - whole_test.natural);
  };
  std::vector<double> repeat_change, test_change;
  for (int64_t place = 0; place < all; ++place) {
    const auto [repeat, test] = without({place});
    repeat_change.push_back(repeat);
    test_change.push_back(test);
  }
  const std::vector<std::string> dims = {"layer", "head"};
  out.array("repeat_change", repeat_change, {layers, heads}, dims,
            "loss of inducible tokens without this head minus repeat_nll, nats");
  out.array("test_change", test_change, {layers, heads}, dims,
            "loss of test sequences without this head minus test_nll, nats");

  const std::vector<int64_t> top = top_of(in, all);
  const std::vector<int64_t> order = scores.heads.order();
  std::vector<double> top_repeat, top_test, bottom_repeat;
  for (const int64_t k : top) {
    const auto [repeat, test] = without({order.begin(), order.begin() + k});
    top_repeat.push_back(repeat);
    top_test.push_back(test);
    bottom_repeat.push_back(without({order.end() - k, order.end()}).first);
    out.scalar(fmt::format("top{}_repeat_change", k), repeat,
               fmt::format("change on repeats without the {} heads of the highest induction score, nats", k));
  }
  const int64_t n = static_cast<int64_t>(top.size());
  out.coordinate("top", std::vector<double>(top.begin(), top.end()));
  out.array("top_repeat_change", top_repeat, {n}, {"top"},
            "change on repeats without the heads of the highest induction score, nats");
  out.array("top_test_change", top_test, {n}, {"top"}, "the same on test sequences, nats");
  out.array("bottom_repeat_change", bottom_repeat, {n}, {"top"},
            "control: change on repeats without as many heads of the lowest induction score, nats");
  if (!whole.pointer) return;
  const double no_copy = whole.no_copy - whole.natural;
  out.scalar("no_copy_repeat_change", no_copy, "loss on repeats of the LM head alone minus repeat_nll, nats");
  out.scalar("no_copy_test_change", whole_test.no_copy - whole_test.natural,
             "loss on test sequences of the LM head alone minus test_nll, nats");
  out.scalar("no_copy_over_top", no_copy - *std::max_element(top_repeat.begin(), top_repeat.end()),
             "no_copy_repeat_change minus the largest of top_repeat_change, nats");
}

// With every head, without each one alone, and without several, highest and lowest scores apart.
double plan(const MeasureInput& in) {
  const Repeats repeats = repeats_of(in);
  const int64_t heads = in.settings.integer("model.layers") * in.settings.integer("model.heads");
  const double times = static_cast<double>(1 + heads), few = static_cast<double>(top_of(in, heads).size());
  const double repeated =
      plan_repeats(in, repeats.block, in.settings.integer("measure.head_knockout.sequences"));
  const double test =
      in.pass_flops(static_cast<double>(in.settings.integer("measure.head_knockout.test_sequences")));
  return (1 + times + 2 * few) * repeated + (times + few) * test;
}

}  // namespace

const MeasureEntry head_knockout_measure = {
    "head_knockout", "losses with attention heads switched off, one and several, and without pointer (C34)",
    fields, run, plan};

}  // namespace copylab
