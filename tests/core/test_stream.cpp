// Models on streams: what is carried from stretch to stretch, and what training from it must equal.
#include <cmath>
#include <numeric>

#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "tests/core/gradcheck.h"

using namespace copylab;
using namespace copylab::test;

namespace {

constexpr int64_t kVocab = 9, kLanes = 3, kLong = 24;

Settings settings_for(const std::string& head, const std::map<std::string, Value>& changes) {
  Settings s;
  for (const Field& field : nn::model_fields()) s.set(field.path, field.fallback);
  s.set("head.kind", head);
  for (const Field& field : nn::find_head(head).fields()) s.set(field.path, field.fallback);
  s.set("model.kind", std::string("lstm"));
  s.set("model.dim", int64_t{6});
  s.set("model.layers", int64_t{2});
  s.set("model.init_range", 0.8);
  for (const auto& [path, value] : changes) {
    INFO(path);
    REQUIRE(s.has(path));
    s.set(path, value);
  }
  return s;
}

std::unique_ptr<nn::Model> make(const std::string& head, const std::map<std::string, Value>& changes = {}) {
  auto model =
      std::make_unique<nn::Model>(cpu_backend(), DType::f64, settings_for(head, changes), kVocab, kLong);
  model->initialise(5);
  return model;
}

// Heads and the settings under which they point back over stretches.
struct Case {
  const char* head;
  std::map<std::string, Value> changes;
};
const std::vector<Case> kHeads = {
    {"vanilla", {}},
    {"mixture_of_softmaxes", {}},
    {"pointer_sentinel", {{"head.window", int64_t{7}}}},
    {"pointer_sentinel", {{"head.window", int64_t{7}}, {"head.projection", std::string("none")}}},
    {"copy_paste", {{"head.window", int64_t{7}}}},
    {"copy_paste", {{"head.window", int64_t{3}}, {"head.key_token", std::string("next")}}},
};

// Tokens and targets (B, long + 1) of streams that repeat themselves a lot.
const std::vector<int32_t>& stream() {
  static const std::vector<int32_t> ids = random_ids(kLanes * (kLong + 1), "stream", 0, kVocab);
  return ids;
}

// The first `unlabelled` positions have no target.
nn::ModelInput stretch(Tape& tape, int64_t first, int64_t length, int64_t rows = kLanes,
                       int64_t unlabelled = 0) {
  std::vector<int32_t> tokens, targets;
  for (int64_t b = 0; b < rows; ++b)
    for (int64_t t = first; t < first + length; ++t) {
      tokens.push_back(stream()[b * (kLong + 1) + t]);
      targets.push_back(t < first + unlabelled ? -1 : stream()[b * (kLong + 1) + t + 1]);
    }
  nn::ModelInput in;
  in.tokens = tape.constant(tokens, {rows, length});
  in.targets = tape.constant(targets, {rows, length});
  return in;
}

// What evaluation says of every position of the streams, (B, long), when stretches of these lengths are read
// one after the other.
struct Answers {
  std::vector<double> nll = std::vector<double>(kLanes * kLong), lm_nll = nll, copy_nll = nll, gate = nll,
                      sink = nll;
  std::vector<int32_t> argmax = std::vector<int32_t>(kLanes * kLong), copy_argmax = argmax;
};
Answers read(const nn::Model& model, const std::vector<int64_t>& lengths, nn::Carry& carry) {
  Answers all;
  Tape tape(cpu_backend());
  int64_t first = 0;
  for (const int64_t length : lengths) {
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = stretch(tape, first, length);
    in.want_argmax = true;
    in.carry = &carry;
    const nn::HeadOutput out = model.forward(tape, in);
    const auto put = [&](const Tensor& from, auto& to, auto tag) {
      if (!from) return;
      const auto host = to_host<decltype(tag)>(cpu_backend(), from);
      for (int64_t i = 0; i < kLanes * length; ++i) to[i / length * kLong + first + i % length] = host[i];
    };
    put(out.nll, all.nll, double());
    put(out.lm_nll, all.lm_nll, double());
    put(out.copy_nll, all.copy_nll, double());
    put(out.gate, all.gate, double());
    put(out.sink, all.sink, double());
    put(out.argmax, all.argmax, int32_t());
    put(out.copy_argmax, all.copy_argmax, int32_t());
    first += length;
  }
  REQUIRE(first == kLong);
  return all;
}

}  // namespace

TEST_CASE("Stretches with a carry say the same as one long stretch", "[stream]") {
  for (const Case& c : kHeads) {
    const auto model = make(c.head, c.changes);
    nn::Carry carry_one;
    const Answers one = read(*model, {kLong}, carry_one);
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{12, 12}, {1, 23}, {8, 8, 8}, {5, 2, 1, 16}}) {
      CAPTURE(c.head, lengths);
      nn::Carry carry;
      const Answers many = read(*model, lengths, carry);
      if (std::string(c.head) == "vanilla") {
        CHECK(many.nll == one.nll);  // to the bit
        CHECK(carry == carry_one);
      }
      CHECK(difference(many.nll, one.nll) < 1e-12);
      CHECK(difference(many.lm_nll, one.lm_nll) < 1e-12);
      CHECK(difference(many.copy_nll, one.copy_nll) < 1e-11);
      CHECK(difference(many.gate, one.gate) < 1e-12);
      CHECK(difference(many.sink, one.sink) < 1e-11);
      CHECK(many.argmax == one.argmax);
      CHECK(many.copy_argmax == one.copy_argmax);
      CHECK(carry.h == carry_one.h);
      CHECK(carry.c == carry_one.c);
      CHECK(carry.tokens == carry_one.tokens);
      CHECK(difference(carry.states, carry_one.states) < 1e-14);
    }
    // A pointer that forgets sees less.
    nn::Carry first, second;
    const Answers split = read(*model, {12, 12}, first);
    Tape tape(cpu_backend());
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = stretch(tape, 12, 12);
    in.carry = &second;
    const auto forgotten = to_host<double>(cpu_backend(), model->forward(tape, in).nll);
    CHECK(forgotten[0] != split.nll[12]);
  }
}

TEST_CASE("The memory holds the last states, and nothing before the stream's start", "[stream]") {
  const auto model = make("pointer_sentinel", {{"head.window", int64_t{5}}});
  Tape tape(cpu_backend());
  nn::Carry carry;
  tape.begin({.record = false, .training = false});
  nn::ModelInput in = stretch(tape, 0, 3);
  in.carry = &carry;
  const auto h = to_host<double>(cpu_backend(), model->hidden(tape, in));
  carry.clear();
  model->forward(tape, in);
  REQUIRE(carry.rows == kLanes);
  REQUIRE(carry.memory == 4);
  REQUIRE(carry.layers == 2);
  for (int64_t b = 0; b < kLanes; ++b) {
    CHECK(carry.tokens[b * 4] == -1);
    for (int64_t t = 0; t < 3; ++t) {
      CHECK(carry.tokens[b * 4 + 1 + t] == stream()[b * (kLong + 1) + t]);
      for (int64_t d = 0; d < 6; ++d) CHECK(carry.states[(b * 4 + 1 + t) * 6 + d] == h[(b * 3 + t) * 6 + d]);
    }
    for (int64_t d = 0; d < 6; ++d)
      CHECK(carry.h[(kLanes + b) * 6 + d] == h[(b * 3 + 2) * 6 + d]);  // of the second layer
  }
}

TEST_CASE("A stream that moves on by less than it reads hands on the state in between", "[stream]") {
  for (const Case& c : kHeads) {
    CAPTURE(c.head);
    const auto model = make(c.head, c.changes);
    Tape tape(cpu_backend());
    nn::Carry part, whole;
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = stretch(tape, 0, 8);
    in.carry = &part;
    in.advance = 3;
    model->forward(tape, in);
    tape.begin({.record = false, .training = false});
    in = stretch(tape, 0, 3);
    in.carry = &whole;
    model->forward(tape, in);
    CHECK(part.h == whole.h);
    CHECK(part.c == whole.c);
    CHECK(part.states == whole.states);
    CHECK(part.tokens == whole.tokens);
  }
}

namespace {

// Adds the gradient of the summed losses at `labelled` positions of a fresh stretch from the streams' start;
// returns those losses in order of the positions.
std::vector<double> losses_and_gradient(nn::Model& model, int64_t length, int64_t first_label,
                                        nn::Carry* carry, int64_t first = 0) {
  Tape tape(cpu_backend());
  tape.begin({});
  nn::ModelInput in = stretch(tape, first, length, kLanes, first_label);
  in.carry = carry;
  const nn::HeadOutput out = model.forward(tape, in);
  tape.backward(ops::weighted_sum(tape, nn::training_loss(tape, out)));
  return to_host<double>(cpu_backend(), out.nll);
}

std::vector<double> gradient_of(const nn::Model& model) {
  const auto& p = model.parameters();
  const double* g = static_cast<const double*>(p.flat_grad());
  return {g, g + p.flat_size()};
}

}  // namespace

TEST_CASE("PSM's BPTT and one pass over all positions agree where nothing is cut off", "[stream]") {
  // k1 = 1, k2 = L: for every word a pass over the L states before it, with a loss of that word alone. As
  // long as the stream is no longer than L, no state and no gradient is cut off.
  constexpr int64_t L = 10;
  for (const char* head : {"vanilla", "pointer_sentinel", "copy_paste"}) {
    CAPTURE(head);
    const std::map<std::string, Value> window = {{"head.window", L}};
    const auto model = make(head, std::string(head) == "vanilla" ? std::map<std::string, Value>{} : window);
    model->parameters().zero_grad();
    nn::Carry carry;
    const std::vector<double> once = losses_and_gradient(*model, L, 0, &carry);
    const std::vector<double> gradient = gradient_of(*model);

    model->parameters().zero_grad();
    std::vector<double> each(kLanes * L);
    for (int64_t n = 1; n <= L; ++n) {
      const std::vector<double> last = losses_and_gradient(*model, n, n - 1, nullptr);
      for (int64_t b = 0; b < kLanes; ++b) each[b * L + n - 1] = last[b];
    }
    CHECK(difference(each, once) < 1e-12);
    CHECK(difference(gradient_of(*model), gradient) < 1e-11);

    // Behind that, with equal weights, regenerated states are the carried ones: equal losses, but the one
    // pass cuts gradients off at its first position.
    model->parameters().zero_grad();
    const std::vector<double> later = losses_and_gradient(*model, 4, 0, &carry, L);
    const std::vector<double> cut = gradient_of(*model);
    model->parameters().zero_grad();
    nn::Carry start;
    for (int64_t n = 0; n < 4; ++n) {  // the window of word L + n begins n + 1 positions behind the start
      Tape tape(cpu_backend());
      start.clear();
      tape.begin({.record = false, .training = false});
      nn::ModelInput before = stretch(tape, 0, n + 1);
      before.carry = &start;
      model->forward(tape, before);
      const std::vector<double> last = losses_and_gradient(*model, L, L - 1, &start, n + 1);
      for (int64_t b = 0; b < kLanes; ++b) CHECK(last[b] == Approx(later[b * 4 + n]).epsilon(1e-11));
    }
    CHECK(difference(gradient_of(*model), cut) > 1e-6);
  }
}

TEST_CASE("A transformer on streams points back, but starts each stretch anew", "[stream]") {
  const std::map<std::string, Value> changes = {{"model.kind", std::string("transformer")},
                                                {"model.init_range", 0.0},
                                                {"model.heads", int64_t{1}},
                                                {"model.kv_heads", int64_t{1}},
                                                {"head.window", int64_t{7}}};
  const auto model = make("pointer_sentinel", changes);
  Tape tape(cpu_backend());
  nn::Carry carry;
  tape.begin({.record = false, .training = false});
  nn::ModelInput in = stretch(tape, 0, 12);
  in.carry = &carry;
  model->forward(tape, in);
  CHECK(carry.layers == 0);
  CHECK(carry.memory == 6);
  tape.begin({.record = false, .training = false});
  in = stretch(tape, 12, 12);
  in.carry = &carry;
  const auto h = to_host<double>(cpu_backend(), model->hidden(tape, in));
  const auto with = to_host<double>(cpu_backend(), model->forward(tape, in).sink);
  in.carry = nullptr;
  CHECK(to_host<double>(cpu_backend(), model->hidden(tape, in)) == h);
  CHECK(to_host<double>(cpu_backend(), model->forward(tape, in).sink)[0] != with[0]);
}

TEST_CASE("A carry of another shape is refused", "[stream]") {
  const auto model = make("pointer_sentinel", {{"head.window", int64_t{5}}});
  Tape tape(cpu_backend());
  nn::Carry carry;
  tape.begin({});
  nn::ModelInput in = stretch(tape, 0, 3, 2);
  in.carry = &carry;
  model->forward(tape, in);
  in = stretch(tape, 3, 3, 3);
  in.carry = &carry;
  CHECK(error_of([&] { model->forward(tape, in); }) ==
        "[lstm] states of (2, 3, 6) carried on expected: got (2, 2, 6)");
  in = stretch(tape, 3, 3, 2);
  in.carry = &carry;
  in.advance = 4;
  CHECK(error_of([&] { model->forward(tape, in); }) == "[lstm] a stream cannot move on by 4 of 3 positions");
}

TEST_CASE("An LSTM's parameters, arithmetic and cache", "[model]") {
  Settings s = settings_for("pointer_sentinel", {{"head.window", int64_t{100}}, {"model.tied", false}});
  s.set("model.dim", int64_t{650});
  const nn::Model paper(cpu_backend(), DType::f32, s, 33278, 100);
  const int64_t body = 2 * (2 * 4 * 650 * 650 + 2 * 4 * 650);
  CHECK(paper.parameters().count() == 2 * 33278 * 650 + body + 650 * 650 + 2 * 650);
  CHECK(paper.parameters().find("lstm.1.w_hh").shape == Shape{2600, 650});
  const double matrices = 2.0 * (16.0 * 650 * 650 + 33278.0 * 650 + 650.0 * 650);
  CHECK(paper.flops_per_token(100, true) == Approx(matrices + 2.0 * 650 * 100));
  CHECK(paper.flops_per_token(100) == Approx(matrices + 2.0 * 650 * 50.5));
  CHECK(paper.cache_bytes(1000) == 4 * (2 * 2 * 650 + 100 * 650));
  CHECK(paper.cache_bytes(10) == 4 * (2 * 2 * 650 + 10 * 650));
}

TEST_CASE("An LSTM's weights start uniform within model.init_range, the head's too", "[model]") {
  for (const double range : {0.05, 0.0}) {
    const auto model = make("copy_paste", {{"model.init_range", range}, {"model.dim", int64_t{40}}});
    const double bound = range > 0 ? range : 1 / std::sqrt(40.0);
    for (const char* name : {"embed.weight", "lstm.0.w_ih", "lstm.1.b_hh", "copy_head.q.weight"}) {
      const Tensor& w = model->parameters().find(name).tensor;
      double largest = 0, squares = 0;
      for (int64_t i = 0; i < w.size(); ++i) {
        largest = std::max(largest, std::abs(w.data<double>()[i]));
        squares += w.data<double>()[i] * w.data<double>()[i];
      }
      INFO(name);
      CHECK(largest <= bound);
      CHECK(largest > 0.9 * bound);
      CHECK(std::sqrt(3 * squares / double(w.size())) == Approx(bound).epsilon(0.15));
    }
  }
}

TEST_CASE("Dropout of an LSTM is locked over a stretch, and in evaluation there is none", "[model]") {
  const auto model = make("vanilla", {{"model.dropout", 0.5}, {"model.layers", int64_t{1}}});
  Tape tape(cpu_backend());
  const auto h = [&](bool training, uint64_t step) {
    Tape::Options options;
    options.training = training;
    options.step = step;
    tape.begin(options);
    return to_host<double>(cpu_backend(), model->hidden(tape, stretch(tape, 0, 5)));
  };
  CHECK(h(false, 0) == h(false, 1));
  CHECK(h(true, 0) == h(true, 0));
  CHECK(h(true, 0) != h(true, 1));
  CHECK(h(true, 0) != h(false, 0));
}
