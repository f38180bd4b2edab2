// Every op against PyTorch: values and gradients of tests/golden/ops.h5, in float64 and float32.
#include <list>

#include "core/nn/parameters.h"
#include "core/ops/attention.h"
#include "core/ops/copy_mixture.h"
#include "core/ops/elementwise.h"
#include "core/ops/embedding.h"
#include "core/ops/gather_rows.h"
#include "core/ops/layer_norm.h"
#include "core/ops/linear.h"
#include "core/ops/lm_head.h"
#include "core/ops/lstm.h"
#include "core/ops/pointer.h"
#include "core/ops/project_gradient.h"
#include "core/ops/reduce.h"
#include "core/ops/rms_norm.h"
#include "core/ops/rope.h"
#include "core/ops/scale_by.h"
#include "core/ops/scatter_rows.h"
#include "core/ops/swiglu.h"
#include "core/optim/optimizer.h"
#include "tests/core/golden.h"

using namespace copylab;
using namespace copylab::test;

namespace {

// Names of the cases "group/…".
std::vector<std::string> cases(const h5::File& file, const std::string& group) {
  std::vector<std::string> names;
  for (const std::string& name : file.list(group)) names.push_back(group + "/" + name);
  REQUIRE(!names.empty());
  return names;
}

// Runs body(case) on the case `name` in both precisions; `slack` is for float32.
template <class Body>
void check_case(const h5::File& file, const std::string& name, Body&& body, double slack = 1e-6) {
  INFO(name);
  GoldenCase<double> exact(file, name, slack);
  body(exact);
  exact.finish();
  GoldenCase<float> rough(file, name, slack);
  body(rough);
  rough.finish();
}

// Keeps what an op offers to probes.
class KeepProbe : public Probe {
 public:
  bool wants(const std::string&) const override { return true; }
  void take(const std::string&, const Tensor& value) override { kept = value; }
  Tensor kept;
};

}  // namespace

TEST_CASE("Golden: rows", "[golden]") {
  const h5::File file = open_golden("ops.h5");
  check_case(file, "embedding", [](auto& c) {
    c.output("y", ops::embedding(c.tape(), c.input("table"), c.template constant<int32_t>("ids")));
  });
  check_case(file, "gather_rows", [](auto& c) {
    c.output("y", ops::gather_rows(c.tape(), c.input("x"), c.template constant<int32_t>("index")));
  });
  check_case(file, "scatter_rows", [](auto& c) {
    c.output("y", ops::scatter_rows(c.tape(), c.input("x"), c.template constant<int32_t>("index"), 7));
  });
}

TEST_CASE("Golden: norms and RoPE", "[golden]") {
  const h5::File file = open_golden("ops.h5");
  for (const std::string& name : cases(file, "rms_norm"))
    check_case(file, name, [](auto& c) {
      c.output("y", ops::rms_norm(c.tape(), c.input("x"), c.input("weight"), c.real("eps")));
    });
  check_case(file, "layer_norm", [](auto& c) {
    c.output("y", ops::layer_norm(c.tape(), c.input("x"), c.input("weight"), c.input("bias"), c.real("eps")));
  });
  std::list<ops::RopeTable> tables;  // they must outlive the backward pass
  for (const std::string& name : cases(file, "rope"))
    check_case(file, name, [&](auto& c) {
      const Tensor x = c.input("x");
      tables.emplace_back(golden_backend(), x.dtype(), x.dim(-1), c.real("theta"), c.integer("table_rows"));
      c.output("y", ops::rope(c.tape(), x, tables.back(), c.template constant<int32_t>("positions")));
    });
}

TEST_CASE("Golden: linear and feed-forward", "[golden]") {
  const h5::File file = open_golden("ops.h5");
  for (const std::string& name : cases(file, "linear"))
    check_case(file, name, [](auto& c) {
      c.output("y", ops::linear(c.tape(), c.input("x"), c.input("weight"), c.input("bias")));
    });
  check_case(file, "swiglu",
             [](auto& c) { c.output("y", ops::swiglu(c.tape(), c.input("gate"), c.input("up"))); });
  check_case(file, "relu_ffn", [](auto& c) {
    const Tensor inner = ops::relu(c.tape(), ops::linear(c.tape(), c.input("x"), c.input("up")));
    c.output("y", ops::linear(c.tape(), inner, c.input("down")));
  });
}

TEST_CASE("Golden: elementwise", "[golden]") {
  const h5::File file = open_golden("ops.h5");
  using UnaryOp = Tensor (*)(Tape&, const Tensor&);
  const std::map<std::string, UnaryOp> unary = {
      {"sigmoid", ops::sigmoid}, {"tanh", ops::tanh},         {"silu", ops::silu},
      {"relu", ops::relu},       {"softplus", ops::softplus}, {"log_sigmoid", ops::log_sigmoid},
      {"exp", ops::exp},         {"log", ops::log},           {"square", ops::square}};
  CHECK(cases(file, "unary").size() == unary.size());
  for (const auto& [name, op] : unary)
    check_case(file, "unary/" + name, [op = op](auto& c) { c.output("y", op(c.tape(), c.input("x"))); });

  using BinaryOp = Tensor (*)(Tape&, const Tensor&, const Tensor&);
  const std::map<std::string, BinaryOp> binary = {
      {"add", ops::add}, {"sub", ops::sub}, {"mul", ops::mul}, {"logaddexp", ops::logaddexp}};
  CHECK(cases(file, "binary").size() == binary.size());
  for (const auto& [name, op] : binary)
    check_case(file, "binary/" + name,
               [op = op](auto& c) { c.output("y", op(c.tape(), c.input("a"), c.input("b"))); });

  check_case(file, "affine", [](auto& c) {
    c.output("y", ops::affine(c.tape(), c.input("x"), c.real("alpha"), c.real("beta")));
  });
  check_case(file, "scale_by",
             [](auto& c) { c.output("y", ops::scale_by(c.tape(), c.input("x"), c.input("s"))); });
  check_case(file, "weighted_sum",
             [](auto& c) { c.output("y", ops::weighted_sum(c.tape(), c.input("x"), c.input("w"))); });
}

TEST_CASE("Golden: attention", "[golden][attention]") {
  const h5::File file = open_golden("ops.h5");
  for (const std::string& name : cases(file, "attention"))
    check_case(file, name, [](auto& c) {
      KeepProbe probe;
      Tape::Options tape_options;
      tape_options.probe = &probe;
      c.tape().begin(tape_options);
      ops::AttentionOptions options;
      options.window = c.integer("window");
      options.scale = c.real("scale");
      options.bias = c.input("bias");
      options.allowed = c.template constant<uint8_t>("allowed");
      options.marked = c.template constant<uint8_t>("marked");
      options.segment = c.template constant<int32_t>("segment");
      options.probe = "probs";
      c.output("out", ops::attention(c.tape(), c.input("q"), c.input("k"), c.input("v"), options));
      REQUIRE(probe.kept);
      c.compare("probs", probe.kept);
    });
}

TEST_CASE("Golden: lm_head", "[golden][lm_head]") {
  const h5::File file = open_golden("ops.h5");
  for (const char* name : {"plain", "gate_row", "excluded", "offset"})
    check_case(file, std::string("lm_head/") + name, [](auto& c) {
      const ops::LmHeadResult r =
          ops::lm_head(c.tape(), c.input("h"), c.input("w"), c.template constant<int32_t>("columns"),
                       c.integer("vocab"), c.template constant<uint8_t>("excluded"));
      c.output("lse", r.lse);
      c.output("logits", r.logits);
      c.compare("shift", r.shift);
      c.compare_integers("argmax", r.argmax);
    });
  check_case(file, "lm_head/cross_entropy", [](auto& c) {
    Tape& tape = c.tape();
    const auto targets = to_host<int32_t>(tape.backend(), c.template constant<int32_t>("targets"));
    std::vector<int32_t> labelled, columns;
    for (size_t i = 0; i < targets.size(); ++i)
      if (const int32_t y = targets[i]; y >= 0) {
        labelled.push_back(static_cast<int32_t>(i));
        columns.push_back(y);
      }
    const int64_t m = labelled.size();
    const Tensor h = ops::gather_rows(tape, c.input("h"), tape.constant(labelled, {m}));
    const ops::LmHeadResult r =
        ops::lm_head(tape, h, c.input("w"), tape.constant(columns, {m, 1}), c.integer("vocab"));
    c.output("loss", ops::mean(tape, ops::sub(tape, r.lse, r.logits.reshape({m}))));
  });
  check_case(file, "project_gradient",
             [](auto& c) { c.output("y", ops::project_gradient(c.tape(), c.input("x"), c.input("basis"))); });
}

TEST_CASE("Golden: pointer", "[golden][pointer]") {
  const h5::File file = open_golden("ops.h5");
  for (const std::string& name : cases(file, "pointer"))
    check_case(file, name, [](auto& c) {
      ops::PointerOptions options;
      options.window = c.integer("window");
      options.next_token = c.integer("shift") == 1;
      options.copy_self = c.integer("copy_self") == 1;
      options.scale = c.real("scale");
      options.segment = c.template constant<int32_t>("segment");
      options.want_weights = true;
      const ops::PointerResult r = ops::pointer(c.tape(), c.input("q"), c.input("k"), c.input("sink"),
                                                c.template constant<int32_t>("tokens"),
                                                c.template constant<int32_t>("targets"), options);
      c.output("log_copy", r.log_copy);
      c.output("log_sink", r.log_sink);
      c.compare("weights", r.weights);
    });
}

TEST_CASE("Golden: copy mixtures A, B, F, G, I", "[golden][copy_mixture]") {
  const h5::File file = open_golden("ops.h5");
  CHECK(cases(file, "copy_mixture").size() == 5);
  // With a gate of 40 against it, nll is about 45, and float32 has steps of 4e-6 there.
  for (const std::string& name : cases(file, "copy_mixture"))
    check_case(
        file, name,
        [](auto& c) {
          c.output("nll",
                   ops::copy_mixture(c.tape(), c.input("lm"), c.input("gate_logit"), c.input("log_copy"),
                                     c.input("log_sink"), c.real("gate_floor"), c.integer("drop_sink") == 1));
        },
        4e-6);
}

TEST_CASE("Golden: LSTM", "[golden][lstm]") {
  const h5::File file = open_golden("ops.h5");
  check_case(file, "lstm", [](auto& c) {
    const ops::LstmResult r = ops::lstm(c.tape(), c.input("x"), c.input("w_ih"), c.input("w_hh"),
                                        c.input("b_ih"), c.input("b_hh"), c.input("h0"), c.input("c0"));
    c.output("h_last", r.h_last);
    c.output("h", r.h);
    c.output("c_last", r.c_last);
  });
}

TEMPLATE_TEST_CASE("Golden: optimizers", "[golden][optim]", float, double) {
  using T = TestType;
  const h5::File file = open_golden("ops.h5");
  for (const std::string name : {"adamw/decay", "adamw/plain", "sgd/decay", "sgd/plain"}) {
    INFO(name);
    const std::vector<double> start = file.read<double>(name + "/in.param").values;
    const std::vector<double> grads = file.read<double>(name + "/in.grads").values;
    const std::vector<double> lr = file.read<double>(name + "/in.lr").values;
    const int64_t n = start.size();
    const Backend& backend = golden_backend();
    nn::Parameters parameters(backend, dtype_of<T>());
    const Tensor& w = parameters.add("w", {n}, nn::Init::constant(0), true);
    parameters.allocate();
    backend.copy_in(w.data<T>(), std::vector<T>(start.begin(), start.end()).data(), sizeof(T) * n);
    optim::OptimizerOptions options;
    options.kind = name[0] == 'a' ? optim::OptimizerOptions::Kind::adamw : optim::OptimizerOptions::Kind::sgd;
    options.beta1 = file.attribute_as<double>(name, "beta1");
    options.beta2 = file.attribute_as<double>(name, "beta2");
    options.eps = file.attribute_as<double>(name, "eps");
    options.weight_decay = file.attribute_as<double>(name, "weight_decay");
    optim::Optimizer optimizer(parameters, options);

    const auto error = [&](const std::string& what, const std::vector<double>& got) {
      const std::string path = name + "/out." + what;
      return golden_error<T>(path, got, file.read<double>(path).values,
                             file.attribute_as<double>(path, "f32_error"));
    };
    std::vector<double> history;
    for (size_t s = 0; s < lr.size(); ++s) {
      // Half of the gradient and grad_scale 2 must be the whole gradient.
      std::vector<T> grad(n);
      for (int64_t i = 0; i < n; ++i) grad[i] = static_cast<T>(0.5 * grads[s * n + i]);
      backend.copy_in(w.grad<T>(), grad.data(), sizeof(T) * n);
      optimizer.step(lr[s], 2.0);
      const std::vector<T> now = to_host<T>(backend, w);
      history.insert(history.end(), now.begin(), now.end());
    }
    CHECK(error("param", history) == "");
    for (const auto& state : optimizer.state()) {
      const std::vector<T> values = to_host<T>(backend, state.tensor);
      CHECK(error(state.name.substr(0, 1), std::vector<double>(values.begin(), values.end())) == "");
    }
  }
}

TEMPLATE_TEST_CASE("Golden: gradient clipping", "[golden][optim]", float, double) {
  using T = TestType;
  const h5::File file = open_golden("ops.h5");
  for (const std::string& name : cases(file, "clip")) {
    INFO(name);
    const Backend& backend = golden_backend();
    nn::Parameters parameters(backend, dtype_of<T>());
    std::vector<std::vector<double>> grads;
    for (int i = 0; i < 3; ++i) {
      grads.push_back(file.read<double>(fmt::format("{}/in.grad{}", name, i)).values);
      parameters.add(fmt::format("w{}", i), {static_cast<int64_t>(grads[i].size())}, nn::Init::constant(0),
                     true);
    }
    parameters.allocate();
    parameters.zero_grad();
    for (int i = 0; i < 3; ++i)
      backend.copy_in(parameters.entries()[i].tensor.template grad<T>(),
                      std::vector<T>(grads[i].begin(), grads[i].end()).data(), sizeof(T) * grads[i].size());
    const double norm = optim::gradient_norm(parameters);
    CHECK(norm == Approx(file.attribute_as<double>(name, "norm")).epsilon(1e-6));
    const double scale = optim::clip_scale(norm, file.attribute_as<double>(name, "max_norm"));
    for (int i = 0; i < 3; ++i) {
      const std::string path = fmt::format("{}/out.grad{}", name, i);
      std::vector<double> clipped = grads[i];
      for (double& g : clipped) g *= scale;
      CHECK(golden_error<T>(path, clipped, file.read<double>(path).values,
                            file.attribute_as<double>(path, "f32_error")) == "");
    }
  }
}
