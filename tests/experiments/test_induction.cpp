// Measures of induction: stripes by hand, models whose weights make the scores known, and knockouts.
#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "experiments/check/check_settings.h"
#include "experiments/measures/head_knockout.h"
#include "experiments/measures/induction.h"
#include "experiments/measures/repeats.h"
#include "tests/catch.h"
#include "tests/messages.h"

using namespace copylab;
using copylab::testing::message_of;

namespace {

constexpr int64_t kVocab = 24;

// Sequences of 16 predictions over 24 ids: what the models here are measured with.
std::unique_ptr<Task> plain_task() {
  const TaskEntry& entry = find_task("spamlang");
  return entry.make(task_settings(
      entry, {{"task.vocab", kVocab}, {"task.length", int64_t{15}}, {"task.period", int64_t{8}}}));
}

std::unique_ptr<nn::Model> model_of(const Settings& settings) {
  auto model = std::make_unique<nn::Model>(cpu_backend(), DType::f64, settings, kVocab, 15);
  model->initialise(4);
  return model;
}

// A small model of one layer; later settings win.
Settings settings_with(const std::vector<std::string>& changes) {
  std::map<std::string, std::string> all = {
      {"task.vocab", "24"},     {"task.length", "15"},
      {"model.dim", "32"},      {"model.layers", "1"},
      {"model.heads", "4"},     {"model.kv_heads", "4"},
      {"head.kind", "vanilla"}, {"run.measures", "induction,head_knockout"},
  };
  for (const std::string& change : changes)
    all[change.substr(0, change.find('='))] = change.substr(change.find('=') + 1);
  std::vector<std::string> assignments;
  for (const auto& [key, value] : all) assignments.push_back(key + "=" + value);
  return check_settings(assignments);
}

double* weights(nn::Model& model, const std::string& name) {
  return model.parameters().find(name).tensor.data<double>();
}

// Embeddings whose component 0 is 1 for every token and whose others are small, so that every position has
// nearly the same norm and component 0 of the normed state is nearly the same, c.
void share_a_component(nn::Model& model) {
  double* embed = weights(model, "embed.weight");
  const int64_t rows = model.parameters().find("embed.weight").shape[0];
  for (int64_t i = 0; i < rows * 32; ++i) embed[i] = i % 32 == 0 ? 1.0 : 0.01 * embed[i];
}

// Head h of layer 0 attends `back` positions back, whatever the tokens: query (strength, 0) and key (cos
// back, sin back) in the first rotary pair, which turns by one radian a position, so that the score of
// distance n is strength · cos(n - back).
void attend_back(nn::Model& model, int64_t h, double back, double strength) {
  double *q = weights(model, "blocks.0.attn.q.weight"), *k = weights(model, "blocks.0.attn.k.weight");
  for (int64_t row = 8 * h; row < 8 * h + 8; ++row) {
    std::fill_n(q + row * 32, 32, 0.0);
    std::fill_n(k + row * 32, 32, 0.0);
  }
  q[8 * h * 32] = strength;
  k[8 * h * 32] = std::cos(back);
  k[(8 * h + 4) * 32] = std::sin(back);  // half-split: the pair is (0, d/2)
}

MeasureInput input(nn::Model& model, const Task& task, const Settings& settings) {
  return {model, nullptr, task, settings, cpu_backend(), 5};
}

}  // namespace

TEST_CASE("a stripe takes one entry of each row", "[induction]") {
  // Two 4 x 4 maps whose entry (i, j) of map m is 100 m + 10 i + j.
  std::vector<double> maps;
  for (int m = 0; m < 2; ++m)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) maps.push_back(100 * m + 10 * i + j);
  CHECK(stripe(maps, 4, 2, 1) == std::vector<double>{21, 32, 121, 132});
  CHECK(stripe(maps, 4, 2, 2) == std::vector<double>{20, 31, 120, 131});
  CHECK(stripe(maps, 4, 1, 1) == std::vector<double>{10, 21, 32, 110, 121, 132});
  CHECK(message_of([&] { stripe(maps, 4, 1, 2); }) == "[stripe] offset <= first < 4 expected: got 2, 1");
}

TEST_CASE("repeats are distinct ids shown twice, each asked for the next", "[induction]") {
  const Batch b = repeated_sequences({3, 5, {10, 15}}, 2, 3);
  REQUIRE(b.tokens.size() == 30);
  CHECK(b.length == 10);
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t t = 0; t < 10; ++t) {
      const int32_t token = b.tokens[row * 10 + t];
      CHECK((token >= 10 && token <= 15));
      CHECK(token == b.tokens[row * 10 + t % 5]);
      CHECK(b.targets[row * 10 + t] == b.tokens[row * 10 + (t + 1) % 5]);
      for (int64_t u = 0; u < t % 5; ++u) CHECK(token != b.tokens[row * 10 + u]);
    }
  const Batch tail = repeated_sequences({3, 5, {10, 15}}, 4, 1);
  CHECK(std::equal(tail.tokens.begin(), tail.tokens.end(), b.tokens.begin() + 20));
  CHECK(repeated_sequences({4, 5, {10, 15}}, 2, 3).tokens != b.tokens);
}

TEST_CASE("block lengths go to half of what the model was trained on", "[induction]") {
  const auto with = [](int64_t length) {
    const TaskEntry& entry = find_task("spamlang");
    return entry.make(task_settings(entry, {{"task.vocab", int64_t{100}}, {"task.length", length}}));
  };
  using Blocks = std::vector<int64_t>;
  CHECK(default_blocks(*with(128), {0, 99}) == Blocks{8, 16, 32, 64});
  CHECK(default_blocks(*with(127), {0, 99}) == Blocks{8, 16, 32, 64});
  CHECK(default_blocks(*with(126), {0, 99}) == Blocks{8, 16, 32});
  CHECK(default_blocks(*with(1000), {20, 40}) == Blocks{8, 16});
  CHECK(default_blocks(*with(10), {0, 99}) == Blocks{5});
}

TEST_CASE("heads that attend by position alone get the scores that they were built for", "[induction]") {
  const auto task = plain_task();
  const int64_t block = 8;
  // The strongest rival is six positions off: cos(6) = 0.96 of 200000 c² / sqrt(8).
  for (const bool sliding : {false, true}) {
    INFO("sliding " << sliding);
    const Settings settings =
        settings_with({sliding ? "model.backbone=sliding" : "model.backbone=full", "model.window=4"});
    const auto model = model_of(settings);
    share_a_component(*model);
    attend_back(*model, 0, 1, 1000);
    attend_back(*model, 1, block - 1, 1000);
    attend_back(*model, 2, block, 1000);
    attend_back(*model, 3, 0, 0);  // every position alike
    const RepeatScores scores = score_heads(*model, {1, block, {0, kVocab - 1}}, 20);
    const HeadScores& heads = scores.heads;
    REQUIRE(heads.layers == 1);
    REQUIRE(heads.heads == 4);
    CHECK_FALSE(scores.pointer);
    const double none = 1e-6;
    CHECK(heads.previous[0] == Approx(1.0).margin(none));
    CHECK(heads.induction[0] == Approx(0.0).margin(none));
    CHECK(heads.induction[1] == Approx(sliding ? 0.0 : 1.0).margin(none));
    CHECK(heads.duplicate[1] == Approx(0.0).margin(none));
    CHECK(heads.duplicate[2] == Approx(sliding ? 0.0 : 1.0).margin(none));
    CHECK(heads.induction[2] == Approx(0.0).margin(none));
    double uniform = 0, before = 0;  // 1 / the positions that a row sees
    for (int64_t i = 8; i < 16; ++i) uniform += 1.0 / (i + 1) / 8;
    for (int64_t i = 1; i < 16; ++i) before += 1.0 / std::min<int64_t>(i + 1, sliding ? 4 : 16) / 15;
    CHECK(heads.induction[3] == Approx(sliding ? 0.0 : uniform).margin(1e-12));
    CHECK(heads.duplicate[3] == Approx(sliding ? 0.0 : uniform).margin(1e-12));
    CHECK(heads.previous[3] == Approx(before).epsilon(1e-12));
    if (sliding) continue;
    CHECK(heads.order()[0] == 1);
    CHECK(heads.order()[1] == 3);

    MeasureOutput out;
    induction_measure.run(input(*model, *task, settings), out);
    CHECK(out.arrays.at("heads_above").values == std::vector<double>{1, 1, 1, 1});
    CHECK(out.arrays.at("heads_above_0.3").values[0] == 1);
    CHECK(out.arrays.at("score").shape == std::vector<int64_t>{1, 4});
    CHECK(out.arrays.at("score_uniform").values[0] == Approx(uniform).epsilon(1e-12));
    CHECK(out.arrays.count("copy_head_score") == 0);
    CHECK(out.arrays.count("no_copy_nll") == 0);
  }
}

TEST_CASE("longer repeats than the model was built for run at new positions", "[induction]") {
  const Settings settings = settings_with({});
  const auto model = model_of(settings);
  share_a_component(*model);
  attend_back(*model, 0, 11, 1000);
  CHECK(score_heads(*model, {1, 12, {0, kVocab - 1}}, 4).heads.induction[0] == Approx(1.0).margin(1e-3));
}

TEST_CASE("a pointer by content: its score is the stripe in tokens, and force_copy its loss", "[induction]") {
  // Without layers' output the state is the token's own direction; queries and keys of equal tokens match. A
  // key that stands for the token after it then points where an induction head does; one that stands for its
  // own token points at the token itself.
  for (const char* key : {"next", "at_key"}) {
    INFO(key);
    const bool next = std::string(key) == "next";
    const Settings settings = settings_with({"head.kind=copy_paste", std::string("head.key_token=") + key,
                                             "head.copy_self=false", "head.qk_norm=false"});
    const auto model = model_of(settings);
    for (const char* name : {"blocks.0.attn.o.weight", "blocks.0.mlp.down.weight"})
      std::fill_n(weights(*model, name), model->parameters().find(name).shape.size(), 0.0);
    double* embed = weights(*model, "embed.weight");
    for (int64_t v = 0; v < kVocab + 1; ++v)
      for (int64_t d = 0; d < 32; ++d) embed[v * 32 + d] = v == d ? 1.0 : 0.0;
    for (const char* name : {"copy_head.q.weight", "copy_head.k.weight"})
      for (int64_t i = 0; i < 32 * 32; ++i) weights(*model, name)[i] = i / 32 == i % 32 ? 5.0 : 0.0;
    std::fill_n(weights(*model, "copy_head.sink"), 32, 0.0);

    const Repeats repeats = {1, 6, {0, kVocab - 1}};
    const RepeatScores scores = score_heads(*model, repeats, 8);
    REQUIRE(scores.pointer);
    CHECK(scores.copy_head.induction == Approx(next ? 1.0 : 0.0).margin(1e-3));
    CHECK(scores.copy_head.sink == Approx(0.0).margin(1e-3));
    // States have root mean square 1, so the token's own logit is sqrt(32); the <copy> row's is 0.
    const double gate = 1 / (1 + kVocab - 1 + std::exp(std::sqrt(32.0)));
    CHECK(scores.copy_head.gate == Approx(gate).epsilon(1e-3));
    CHECK(scores.copy_head.gated == Approx(next ? gate : 0.0).margin(1e-5));

    const RepeatLosses losses = repeat_losses(*model, repeats, 8, true);
    CHECK(losses.pointer);
    CHECK(losses.reachable == 1.0);
    if (next) CHECK(losses.force_copy < 1e-3);
    if (!next) CHECK(losses.force_copy > 5);
    CHECK(losses.no_copy == Approx(std::log(23 + std::exp(std::sqrt(32.0)))).epsilon(1e-3));
  }
}

TEST_CASE("losses of repeats are means over the inducible tokens alone", "[induction]") {
  const Settings settings = settings_with({"head.kind=copy_paste"});
  const auto model = model_of(settings);
  const Repeats repeats = {9, 5, {2, 20}};
  const int64_t sequences = 300;  // several batches
  const RepeatLosses found = repeat_losses(*model, repeats, sequences, true);
  double natural = 0, no_copy = 0, first = 0, force = 0, last = 0;
  for (int64_t row = 0; row < sequences; ++row) {
    const Losses one = losses_on(*model, repeated_sequences(repeats, row, 1), true);
    for (int64_t t = 0; t < 4; ++t) first += one.natural[t];
    for (int64_t t = 5; t < 9; ++t) {
      natural += one.natural[t];
      no_copy += one.no_copy[t];
      force += one.force_copy[t];
    }
    last += one.natural[8];
  }
  const double n = 4.0 * sequences;
  CHECK(found.natural == Approx(natural / n).epsilon(1e-12));
  CHECK(found.no_copy == Approx(no_copy / n).epsilon(1e-12));
  CHECK(found.force_copy == Approx(force / n).epsilon(1e-12));
  CHECK(found.first_copy == Approx(first / n).epsilon(1e-12));
  REQUIRE(found.by_position.size() == 9);
  CHECK(found.by_position[8] == Approx(last / sequences).epsilon(1e-12));
}

TEST_CASE("a knockout removes one head's output and puts the same bits back", "[induction]") {
  const Settings settings = settings_with({"model.layers=2", "model.kv_heads=2"});
  const auto model = model_of(settings);
  nn::Parameters& p = model->parameters();
  std::vector<std::byte> before(sizeof(double) * p.flat_size());
  std::memcpy(before.data(), p.flat_data(), before.size());
  const Repeats repeats = {1, 5, {0, kVocab - 1}};
  const double whole = repeat_losses(*model, repeats, 4).natural;
  {
    const Knockout off(*model, {2, 4, 7}, 4);
    for (int64_t layer = 0; layer < 2; ++layer) {
      const double* o = weights(*model, layer ? "blocks.1.attn.o.weight" : "blocks.0.attn.o.weight");
      for (int64_t i = 0; i < 32 * 32; ++i) {
        const int64_t place = layer * 4 + i % 32 / 8;
        REQUIRE((o[i] == 0.0) == (place == 2 || place == 4 || place == 7));
      }
    }
    CHECK(repeat_losses(*model, repeats, 4).natural != whole);
  }
  CHECK(std::memcmp(before.data(), p.flat_data(), before.size()) == 0);
  CHECK(repeat_losses(*model, repeats, 4).natural == whole);

  // The same by hand: a head whose values are zero.
  double without;
  {
    const Knockout off(*model, {1}, 4);
    without = repeat_losses(*model, repeats, 4).natural;
  }
  const Settings apart = settings_with({"model.layers=2"});
  const auto copy = model_of(apart);
  for (const auto& entry : copy->parameters().entries()) {
    const auto& from = p.find(entry.name);
    double* to = entry.tensor.data<double>();
    if (from.shape == entry.shape) {
      std::copy_n(from.tensor.data<double>(), entry.shape.size(), to);
      continue;
    }
    for (int64_t row = 0; row < 32; ++row)  // head h reads key/value head h / 2
      std::copy_n(from.tensor.data<double>() + (row / 16 * 8 + row % 8) * 32, 32, to + row * 32);
  }
  CHECK(repeat_losses(*copy, repeats, 4).natural == Approx(whole).epsilon(1e-12));
  std::fill_n(weights(*copy, "blocks.0.attn.v.weight") + 8 * 32, 8 * 32, 0.0);
  CHECK(repeat_losses(*copy, repeats, 4).natural == Approx(without).epsilon(1e-12));
}

TEST_CASE("head_knockout compares heads with the pointer, and leaves the model alone", "[induction]") {
  const auto task = plain_task();
  for (const char* head : {"vanilla", "copy_paste"}) {
    INFO(head);
    const Settings settings =
        settings_with({std::string("head.kind=") + head, "measure.head_knockout.top=[1, 3]",
                       "measure.head_knockout.block=7"});
    const auto model = model_of(settings);
    // Head 2 writes nothing, so that nothing changes without it.
    double* o = weights(*model, "blocks.0.attn.o.weight");
    for (int64_t row = 0; row < 32; ++row) std::fill_n(o + row * 32 + 16, 8, 0.0);
    MeasureOutput out;
    const MeasureInput in = input(*model, *task, settings);
    head_knockout_measure.run(in, out);
    const auto array = [&](const char* name) { return out.arrays.at(name).values; };
    REQUIRE(array("repeat_change").size() == 4);
    CHECK(array("repeat_change")[2] == 0.0);
    CHECK(array("test_change")[2] == 0.0);
    CHECK(array("repeat_change")[1] != 0.0);
    const Repeats repeats = {5, 7, {0, kVocab - 1}};
    const RepeatLosses whole = repeat_losses(*model, repeats, 16);
    CHECK(array("repeat_nll")[0] == whole.natural);

    const std::vector<int64_t> order = score_heads(*model, repeats, 16).heads.order();
    CHECK(array("top_repeat_change")[0] == array("repeat_change")[order[0]]);
    CHECK(array("bottom_repeat_change")[0] == array("repeat_change")[order[3]]);
    const Knockout off(*model, {order[0], order[1], order[2]}, 4);
    CHECK(array("top3_repeat_change")[0] == repeat_losses(*model, repeats, 16).natural - whole.natural);
    CHECK(out.arrays.count("no_copy_repeat_change") == (std::string(head) == "copy_paste"));
    if (std::string(head) == "copy_paste") {
      CHECK(array("no_copy_repeat_change")[0] == Approx(whole.no_copy - whole.natural).epsilon(1e-12));
      CHECK(array("no_copy_over_top")[0] ==
            Approx(array("no_copy_repeat_change")[0] -
                   std::max(array("top_repeat_change")[0], array("top_repeat_change")[1])));
    }
  }
}

TEST_CASE("settings of the induction measures are checked by name", "[induction]") {
  const auto task = plain_task();
  const auto refusal = [&](const std::string& change) {
    const Settings settings = settings_with({change});
    const auto model = model_of(settings);
    return message_of([&] {
      MeasureOutput out;
      induction_measure.run(input(*model, *task, settings), out);
    });
  };
  CHECK(refusal("measure.induction.ids=[3, 24]") ==
        "measure.induction.ids: first and last id within 0..23 expected");
  CHECK(refusal("measure.induction.blocks=[8, 25]") ==
        "measure.induction.blocks: ascending lengths of 2..24 expected, the number of ids");
}
