// Whole models against PyTorch: every head variant's values and gradients, and ten training steps.
#include <map>
#include <set>

#include "core/nn/model.h"
#include "core/ops/reduce.h"
#include "core/optim/optimizer.h"
#include "tests/core/golden.h"

using namespace copylab;
using namespace copylab::test;

namespace {

// Defaults of the schema, then the PATH=VALUE lines of the case.
Settings settings_of(const h5::File& file, const std::string& group) {
  std::map<std::string, std::string> given;
  for (const std::string& line : file.attribute_as<std::vector<std::string>>(group, "settings"))
    given[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  std::vector<Field> fields = nn::model_fields();
  const std::vector<Field> of_head = nn::find_head(given.at("head.kind")).fields();
  fields.insert(fields.end(), of_head.begin(), of_head.end());

  Settings settings;
  settings.set("head.kind", given.at("head.kind"));
  given.erase("head.kind");
  for (const Field& field : fields) {
    Value value = field.fallback;
    if (const auto found = given.find(field.path); found != given.end()) {
      const std::string& text = found->second;
      if (std::holds_alternative<bool>(value))
        value = text == "true";
      else if (std::holds_alternative<int64_t>(value))
        value = int64_t{std::stoll(text)};
      else if (std::holds_alternative<double>(value))
        value = std::stod(text);
      else
        value = text;
      given.erase(found);
    }
    settings.set(field.path, value);
  }
  INFO("a setting of the golden file that the schema lacks");
  REQUIRE(given.empty());
  return settings;
}

// Arrays that the file keeps end to end in one dataset, by name.
std::map<std::string, std::vector<double>> read_flat(const h5::File& file, const std::string& dataset) {
  const std::vector<double> values = file.read<double>(dataset).values;
  const auto names = file.attribute_as<std::vector<std::string>>(dataset, "names");
  const auto sizes = file.attribute_as<std::vector<int64_t>>(dataset, "sizes");
  std::map<std::string, std::vector<double>> arrays;
  auto at = values.begin();
  for (size_t i = 0; i < names.size(); at += sizes[i++]) arrays[names[i]].assign(at, at + sizes[i]);
  REQUIRE(at == values.end());
  return arrays;
}

// The float32 errors of those arrays, by name.
std::map<std::string, double> read_flat_errors(const h5::File& file, const std::string& dataset) {
  const std::vector<double> errors = file.read<double>(dataset + "_f32_error").values;
  const auto names = file.attribute_as<std::vector<std::string>>(dataset, "names");
  std::map<std::string, double> by_name;
  for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = errors.at(i);
  return by_name;
}

// Sets the parameters; both sides must name the same ones.
template <class T>
void load(nn::Model& model, const std::map<std::string, std::vector<double>>& values) {
  model.allocate();
  REQUIRE(model.parameters().entries().size() == values.size());
  for (const auto& entry : model.parameters().entries()) {
    INFO(entry.name);
    REQUIRE(values.count(entry.name) == 1);
    const std::vector<double>& from = values.at(entry.name);
    REQUIRE(static_cast<int64_t>(from.size()) == entry.shape.size());
    std::copy(from.begin(), from.end(), entry.tensor.template data<T>());
  }
}

template <class T>
std::string dataset_error(const h5::File& file, const std::string& path, const std::vector<double>& got) {
  return golden_error<T>(path, got, file.read<double>(path).values,
                         file.attribute_as<double>(path, "f32_error"));
}

template <class T>
void check_model(const h5::File& file, const std::string& name) {
  INFO(name);
  const std::vector<int32_t> tokens = file.read<int32_t>("tokens").values;
  const std::vector<int32_t> targets = file.read<int32_t>("targets").values;
  const h5::Extent shape = file.shape("tokens");
  const Shape batch{shape[0], shape[1]};
  nn::Model model(cpu_backend(), dtype_of<T>(), settings_of(file, name),
                  file.attribute_as<int64_t>(name, "vocab"), batch[1]);
  load<T>(model, read_flat(file, file.attribute_as<std::string>(name, "params") + "/values"));

  Tape tape(cpu_backend());
  tape.begin({});
  nn::ModelInput in;
  in.tokens = tape.constant(tokens, batch);
  in.targets = tape.constant(targets, batch);
  if (file.attribute_as<int64_t>(name, "use_segment") == 1)
    in.segment = tape.constant(file.read<int32_t>("segment").values, batch);
  const auto flags = [&](const std::string& path, Shape of) {
    return tape.constant(file.read<uint8_t>(path).values, of);
  };
  if (file.has("meta")) in.meta = flags("meta", batch);
  if (file.has(name + "/in.allowed")) {
    in.intervention.zero_position = flags(name + "/in.zero_position", batch);
    in.intervention.zero_embedding = flags(name + "/in.zero_embedding", batch);
    in.intervention.allowed = flags(name + "/in.allowed", {batch[0], batch[1], batch[1]});
  }
  const nn::HeadOutput out = model.forward(tape, in);
  const Tensor loss = ops::mean(tape, nn::training_loss(tape, out));
  model.parameters().zero_grad();
  tape.backward(loss);

  // Our outputs are those of labelled positions, the file's those of all.
  const auto check = [&](const std::string& what, const std::vector<double>& ours) {
    const std::string path = name + "/" + what;
    const std::vector<double> all = file.read<double>(path).values;
    std::vector<double> labelled;
    for (size_t i = 0; i < all.size(); ++i)
      if (targets[i] >= 0) labelled.push_back(all[i]);
    CHECK(golden_error<T>(path, ours, labelled, file.attribute_as<double>(path, "f32_error")) == "");
  };
  const auto values = [](const Tensor& t) { return widen(t.data<T>(), t.size()); };
  check("nll", values(out.nll));
  check("lm_nll", values(out.lm_nll));
  CHECK(out.aux.defined() == file.has(name + "/aux"));
  if (out.aux) check("aux", values(out.aux));
  CHECK(out.gate.defined() == file.has(name + "/gate"));
  if (out.gate) {
    check("gate", values(out.gate));
    check("sink", values(out.sink));
    std::vector<double> pi = values(out.log_copy);
    for (double& p : pi) p = std::exp(p);
    check("pi", pi);
  }
  CHECK(dataset_error<T>(file, name + "/loss", {static_cast<double>(loss.data<T>()[0])}) == "");

  // Scores of the pointer sentinel are not scaled, and YaRN enlarges those of attention: exponents and their
  // rounding are several times larger.
  const bool large =
      name.find("pointer_sentinel") != std::string::npos || name.find("yarn") != std::string::npos;
  const double slack = large ? 4e-6 : 1e-6;
  const auto grads = read_flat(file, name + "/grad");
  const auto errors = read_flat_errors(file, name + "/grad");
  for (const auto& entry : model.parameters().entries())
    CHECK(golden_error<T>("gradient of " + entry.name,
                          widen(entry.tensor.template grad<T>(), entry.shape.size()), grads.at(entry.name),
                          errors.at(entry.name), slack) == "");
}

}  // namespace

TEST_CASE("Golden: heads and backbones", "[golden][model]") {
  std::set<std::string> seen;
  for (const char* path : {"model.h5", "heads.h5", "blocks.h5"}) {
    const h5::File file = open_golden(path);
    for (const std::string& head : file.list("cases")) {
      seen.insert(head);
      for (const std::string& name : file.list("cases/" + head)) {
        check_model<double>(file, "cases/" + head + "/" + name);
        check_model<float>(file, "cases/" + head + "/" + name);
      }
    }
  }
  for (const nn::HeadEntry& head : nn::head_registry()) {
    INFO(head.name << " has no golden values");
    CHECK(seen.count(head.name) == 1);
  }
}

TEMPLATE_TEST_CASE("Golden: LSTMs on streams", "[golden][model][stream]", float, double) {
  using T = TestType;
  const h5::File file = open_golden("streams.h5");
  const std::vector<int32_t> tokens = file.read<int32_t>("tokens").values;
  const std::vector<int32_t> targets = file.read<int32_t>("targets").values;
  const std::vector<int32_t> lengths = file.read<int32_t>("lengths").values;
  const h5::Extent shape = file.shape("tokens");
  const int64_t rows = shape[0], all = shape[1];
  for (const std::string& head : file.list("cases"))
    for (const std::string& variant : file.list("cases/" + head)) {
      const std::string name = "cases/" + head + "/" + variant;
      INFO(name);
      nn::Model model(cpu_backend(), dtype_of<T>(), settings_of(file, name),
                      file.attribute_as<int64_t>(name, "vocab"), all);
      load<T>(model, read_flat(file, name + "/values"));
      model.parameters().zero_grad();

      // Outputs of both stretches, (B, all) with 0 where there is no label; gradients of the second.
      std::map<std::string, std::vector<double>> found;
      Tape tape(cpu_backend());
      nn::Carry carry;
      int64_t first = 0;
      for (const int64_t length : lengths) {
        std::vector<int32_t> now, next;
        for (int64_t b = 0; b < rows; ++b) {
          const int64_t at = b * all + first;
          now.insert(now.end(), tokens.begin() + at, tokens.begin() + at + length);
          next.insert(next.end(), targets.begin() + at, targets.begin() + at + length);
        }
        tape.begin({});
        nn::ModelInput in;
        in.tokens = tape.constant(now, {rows, length});
        in.targets = tape.constant(next, {rows, length});
        in.carry = &carry;
        const nn::HeadOutput out = model.forward(tape, in);
        const auto put = [&](const std::string& what, const Tensor& values) {
          if (!values) return;
          auto& to = found.try_emplace(what, rows * all, 0.0).first->second;
          size_t label = 0;
          for (int64_t i = 0; i < rows * length; ++i)
            if (next[i] >= 0) to[i / length * all + first + i % length] = values.data<T>()[label++];
        };
        put("nll", out.nll);
        put("lm_nll", out.lm_nll);
        put("aux", out.aux);
        put("gate", out.gate);
        put("sink", out.sink);
        put("pi", out.log_copy);
        first += length;
        if (first == all) tape.backward(ops::mean(tape, nn::training_loss(tape, out)));
      }
      for (auto& [what, values] : found) {
        const std::string path = name + "/" + what;
        std::vector<double> expected = file.read<double>(path).values, ours;
        std::vector<double> labelled;
        for (size_t i = 0; i < expected.size(); ++i) {
          if (targets[i] < 0) continue;
          labelled.push_back(expected[i]);
          ours.push_back(what == "pi" ? std::exp(values[i]) : values[i]);
        }
        CHECK(golden_error<T>(path, ours, labelled, file.attribute_as<double>(path, "f32_error")) == "");
      }
      CHECK(found.count("aux") == (file.has(name + "/aux") ? 1u : 0u));
      CHECK(found.count("gate") == (file.has(name + "/gate") ? 1u : 0u));
      const double slack = head == "pointer_sentinel" ? 4e-6 : 1e-6;  // scores that are not scaled
      const auto grads = read_flat(file, name + "/grad");
      const auto errors = read_flat_errors(file, name + "/grad");
      for (const auto& entry : model.parameters().entries())
        CHECK(golden_error<T>("gradient of " + entry.name,
                              widen(entry.tensor.template grad<T>(), entry.shape.size()),
                              grads.at(entry.name), errors.at(entry.name), slack) == "");
    }
}

TEMPLATE_TEST_CASE("Golden: ten training steps", "[golden][model][optim]", float, double) {
  using T = TestType;
  const h5::File file = open_golden("training.h5");
  const std::vector<int32_t> tokens = file.read<int32_t>("tokens").values;
  const std::vector<int32_t> targets = file.read<int32_t>("targets").values;
  const std::vector<double> lr = file.read<double>("lr").values;
  const h5::Extent shape = file.shape("tokens");
  const Shape batch{shape[1], shape[2]};

  for (const std::string head : {"vanilla", "copy_paste"}) {
    INFO(head);
    nn::Model model(cpu_backend(), dtype_of<T>(), settings_of(file, head),
                    file.attribute_as<int64_t>(head, "vocab"), batch[1]);
    load<T>(model, read_flat(file, head + "/start"));
    model.parameters().zero_grad();
    optim::OptimizerOptions options;
    options.beta1 = file.attribute_as<double>(head, "beta1");
    options.beta2 = file.attribute_as<double>(head, "beta2");
    options.eps = file.attribute_as<double>(head, "eps");
    options.weight_decay = file.attribute_as<double>(head, "weight_decay");
    optim::Optimizer optimizer(model.parameters(), options);

    std::vector<double> losses, norms;
    Tape tape(cpu_backend());
    for (size_t s = 0; s < lr.size(); ++s) {
      tape.begin({});
      nn::ModelInput in;
      in.tokens = tape.constant(tokens.data() + s * batch.size(), batch);
      in.targets = tape.constant(targets.data() + s * batch.size(), batch);
      const Tensor loss = ops::mean(tape, model.forward(tape, in).nll);
      tape.backward(loss);
      losses.push_back(loss.data<T>()[0]);
      norms.push_back(optim::gradient_norm(model.parameters()));
      optimizer.step(lr[s], optim::clip_scale(norms.back(), file.attribute_as<double>(head, "clip")));
    }
    CHECK(dataset_error<T>(file, head + "/loss", losses) == "");
    CHECK(dataset_error<T>(file, head + "/grad_norm", norms) == "");
    const auto final = read_flat(file, head + "/final");
    const auto errors = read_flat_errors(file, head + "/final");
    // AdamW's first steps are lr · sign(g): where g is hardly more than rounding, so is the parameter's move.
    for (const auto& entry : model.parameters().entries())
      CHECK(golden_error<T>("final " + entry.name, widen(entry.tensor.template data<T>(), entry.shape.size()),
                            final.at(entry.name), errors.at(entry.name), 2e-5) == "");
  }
}
