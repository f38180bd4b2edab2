// Per-position results: a forward pass per sequence, labelled positions put back in their places.
#include "experiments/evaluate/eval_tokens.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/io/hdf5.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/evaluate/split_walk.h"

namespace copylab {
namespace {

std::vector<int32_t> read_ids(const h5::File& file, const std::string& name, int64_t vocab, bool labels) {
  const std::vector<int64_t> ids = file.read<int64_t>(name).values;
  for (int64_t id : ids)
    expect(id < vocab && (labels || id >= 0), "eval", "{}: {} holds {}, outside of the vocabulary of {}",
           file.path().string(), name, id, vocab);
  std::vector<int32_t> out;
  for (int64_t id : ids) out.push_back(static_cast<int32_t>(std::max<int64_t>(id, -1)));  // -1: no label
  return out;
}

// What the file holds, its sequences step after step.
struct TokenFile {
  Batch all;
  int64_t steps = 1;
  std::vector<int32_t> fresh, advance;  // (steps) of streams
};

TokenFile read_tokens(const std::filesystem::path& path, const Task& task) {
  const h5::File file = h5::File::open(path);
  const h5::Extent shape = file.shape("tokens");
  expect(shape.size() == 2 || shape.size() == 3, "eval",
         "{}: tokens must have axes (sequence, position) or (step, sequence, position): got {} axes",
         path.string(), shape.size());
  const int64_t length = shape.back();
  expect(length >= 1 && length <= task.length(), "eval",
         "{}: sequences of at most {} tokens expected, as in training: got {}", path.string(), task.length(),
         length);
  for (int64_t n : shape) expect(n > 0, "eval", "{}: tokens holds no sequence", path.string());
  TokenFile out;
  Batch& batch = out.all;
  if (shape.size() == 3) out.steps = shape[0];
  batch.rows = out.steps * shape[shape.size() - 2];
  batch.length = length;
  batch.tokens = read_ids(file, "tokens", task.vocab(), false);
  if (file.has("targets")) {
    expect(file.shape("targets") == shape, "eval", "{}: targets must have the shape of tokens",
           path.string());
    batch.targets = read_ids(file, "targets", task.vocab(), true);
  } else {
    batch.targets.assign(batch.tokens.size(), -1);
    for (int64_t i = 0; i < batch.rows * batch.length; ++i)
      if ((i + 1) % batch.length != 0) batch.targets[i] = batch.tokens[i + 1];
  }
  if (file.has("meta")) {
    expect(file.shape("meta") == shape, "eval", "{}: meta must have the shape of tokens", path.string());
    for (const int64_t flag : file.read<int64_t>("meta").values) batch.meta.push_back(flag != 0);
  }
  const auto of_steps = [&](const char* name, int64_t fallback, int64_t end) {
    if (!file.has(name)) return std::vector<int32_t>(out.steps, static_cast<int32_t>(fallback));
    expect(file.shape(name) == h5::Extent{out.steps}, "eval", "{}: {} must have a value for each step",
           path.string(), name);
    return read_ids(file, name, end, false);
  };
  out.fresh = of_steps("fresh", 0, 2);
  out.advance = of_steps("advance", length, length + 1);
  return out;
}

// Arrays (B, T) by name that outputs of single sequences are put into.
class PositionArrays {
 public:
  PositionArrays(const Backend& backend, int64_t size) : backend_(backend), size_(size) {}

  void put_reals(const std::string& name, const Tensor& values, const std::vector<int64_t>& places) {
    if (!values) return;
    auto& to = reals_.try_emplace(name, size_, std::nan("")).first->second;
    const auto host = to_host<float>(backend_, values);
    for (size_t i = 0; i < places.size(); ++i) to[places[i]] = static_cast<double>(host[i]);
  }
  void put_ids(const std::string& name, const Tensor& values, const std::vector<int64_t>& places) {
    if (!values) return;
    auto& to = ids_.try_emplace(name, size_, -1).first->second;
    const auto host = to_host<int32_t>(backend_, values);
    for (size_t i = 0; i < places.size(); ++i) to[places[i]] = host[i];
  }
  void write(h5::File& file, const h5::Extent& shape) const {
    const std::vector<std::string> dims = {"sequence", "position"};
    for (const auto& [name, values] : reals_) file.write<double>(name, values, shape, dims);
    for (const auto& [name, values] : ids_) file.write<int32_t>(name, values, shape, dims);
  }

 private:
  const Backend& backend_;
  size_t size_;
  std::map<std::string, std::vector<double>> reals_;
  std::map<std::string, std::vector<int32_t>> ids_;
};

}  // namespace

void eval_tokens(const std::filesystem::path& folder, const std::filesystem::path& tokens,
                 const std::filesystem::path& out) {
  std::error_code none;  // where one of them does not exist
  expect(!std::filesystem::equivalent(tokens, out, none), "eval", "{}: would be overwritten by the results",
         tokens.string());
  const LoadedRun run = load_run(folder);
  const TokenFile file = read_tokens(tokens, *run.task);
  const Batch& all = file.all;
  const Backend& backend = run.model->parameters().backend();
  PositionArrays arrays(backend, all.rows * all.length);
  Tape tape(backend);
  // One sequence at a time, or a step of all lanes.
  const bool stream = run.task->lanes() > 0;
  const int64_t rows = stream ? all.rows / file.steps : 1;
  nn::Carry carry;
  for (int64_t first = 0; first < all.rows; first += rows) {
    const auto slice = [&](const auto& from) {
      return std::decay_t<decltype(from)>(from.begin() + first * all.length,
                                          from.begin() + (first + rows) * all.length);
    };
    Batch some;
    some.rows = rows;
    some.length = all.length;
    some.tokens = slice(all.tokens);
    some.targets = slice(all.targets);
    if (!all.meta.empty()) some.meta = slice(all.meta);
    if (stream) {
      some.fresh = file.fresh[first / rows] != 0;
      some.advance = file.advance[first / rows];
    }
    std::vector<int64_t> places;  // labelled positions
    for (int64_t i = 0; i < rows * all.length; ++i)
      if (some.targets[i] >= 0) places.push_back(first * all.length + i);
    if (places.empty() && !stream) continue;
    tape.begin({.record = false, .training = false});
    nn::ModelInput in = model_input(tape, some, stream ? &carry : nullptr);
    in.want_argmax = true;
    const nn::HeadOutput result = run.model->forward(tape, in);
    if (places.empty()) continue;
    arrays.put_reals("nll", result.nll, places);
    arrays.put_ids("argmax", result.argmax, places);
    if (!result.gate) continue;
    arrays.put_reals("no_copy_nll", result.lm_nll, places);
    arrays.put_ids("no_copy_argmax", result.lm_argmax, places);
    arrays.put_reals("force_copy_nll", result.copy_nll, places);
    arrays.put_ids("force_copy_argmax", result.copy_argmax, places);
    arrays.put_reals("gate", result.gate, places);
    arrays.put_reals("sink", result.sink, places);
  }
  h5::write_file(out, [&](h5::File& results) {
    const h5::Extent shape{all.rows, all.length};
    results.write<int32_t>("tokens", all.tokens, shape, {"sequence", "position"});
    results.write<int32_t>("targets", all.targets, shape, {"sequence", "position"});
    arrays.write(results, shape);
    results.set_attribute("/", "run", folder.filename().string());
    results.set_attribute("/", "step", run.step);
  });
}

}  // namespace copylab
