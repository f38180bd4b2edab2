// Checkpoint: parameters and optimizer buffers by name, checked as a whole before anything is loaded.
#include "experiments/store/checkpoint.h"

#include <algorithm>
#include <vector>

#include "core/io/hdf5.h"

namespace copylab {
namespace {

// A named array of the program that a dataset of the file stands for.
struct Stored {
  std::string path;
  Tensor tensor;
};

std::vector<Stored> stored_arrays(const nn::Parameters& parameters, const optim::Optimizer* optimizer) {
  std::vector<Stored> all;
  for (const auto& entry : parameters.entries()) all.push_back({"params/" + entry.name, entry.tensor});
  if (optimizer)
    for (const auto& state : optimizer->state()) all.push_back({"optim/" + state.name, state.tensor});
  return all;
}

h5::Extent extent_of(const Shape& shape) {
  h5::Extent extent;
  for (int i = 0; i < shape.rank(); ++i) extent.push_back(shape[i]);
  return extent;
}

// The names below `group`, sorted, must be those of `wanted`.
void expect_names(const h5::File& file, const std::string& group, const std::vector<Stored>& wanted) {
  std::vector<std::string> names;
  for (const Stored& stored : wanted)
    if (stored.path.rfind(group + "/", 0) == 0) names.push_back(stored.path.substr(group.size() + 1));
  std::sort(names.begin(), names.end());
  const std::vector<std::string> found = file.has(group) ? file.list(group) : std::vector<std::string>{};
  for (const std::string& name : names)
    expect(std::binary_search(found.begin(), found.end(), name), "checkpoint", "{}: {}/{} is missing",
           file.path().string(), group, name);
  for (const std::string& name : found)
    expect(std::binary_search(names.begin(), names.end(), name), "checkpoint",
           "{}: {}/{} is not part of this model", file.path().string(), group, name);
}

const std::string kCarry = "state/carry";

void write_carry(h5::File& file, const nn::Carry& carry) {
  if (carry.empty()) return;
  file.make_group(kCarry);
  const h5::Extent layers{carry.layers, carry.rows, carry.dim}, memory{carry.rows, carry.memory};
  file.write<double>(kCarry + "/h", carry.h, layers);
  file.write<double>(kCarry + "/c", carry.c, layers);
  file.write<double>(kCarry + "/states", carry.states, {carry.rows, carry.memory, carry.dim});
  file.write<int32_t>(kCarry + "/tokens", carry.tokens, memory);
}

nn::Carry read_carry(const h5::File& file) {
  nn::Carry carry;
  if (!file.has(kCarry)) return carry;
  const h5::Extent h = file.shape(kCarry + "/h"), states = file.shape(kCarry + "/states");
  expect(h.size() == 3 && states.size() == 3 && file.shape(kCarry + "/c") == h && states[0] == h[1] &&
             states[2] == h[2] && file.shape(kCarry + "/tokens") == h5::Extent{h[1], states[1]},
         "checkpoint", "{}: the arrays of {} do not fit together", file.path().string(), kCarry);
  carry.layers = h[0];
  carry.rows = h[1];
  carry.dim = h[2];
  carry.memory = states[1];
  carry.h = file.read<double>(kCarry + "/h").values;
  carry.c = file.read<double>(kCarry + "/c").values;
  carry.states = file.read<double>(kCarry + "/states").values;
  carry.tokens = file.read<int32_t>(kCarry + "/tokens").values;
  return carry;
}

CheckpointState read_state(const h5::File& file) {
  expect(file.has("state"), "checkpoint", "{}: not a checkpoint: no /state", file.path().string());
  CheckpointState state;
  state.run_id = file.attribute_as<std::string>("state", "run_id");
  state.step = file.attribute_as<int64_t>("state", "step");
  state.tokens = file.attribute_as<int64_t>("state", "tokens");
  state.train_rows = file.attribute_as<int64_t>("state", "train_rows");
  state.valid_rows = file.attribute_as<int64_t>("state", "valid_rows");
  state.plateau.factor = file.attribute_as<double>("state", "plateau_factor");
  state.plateau.best = file.attribute_as<double>("state", "plateau_best");
  state.plateau.seen = file.attribute_as<bool>("state", "plateau_seen");
  state.carry = read_carry(file);
  return state;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, const CheckpointState& state,
                     const nn::Parameters& parameters, const optim::Optimizer* optimizer) {
  h5::write_file(path, [&](h5::File& file) {
    file.make_group("params");
    for (const Stored& stored : stored_arrays(parameters, optimizer)) {
      dispatch_float(stored.tensor.dtype(), "checkpoint", [&](auto tag) {
        using T = decltype(tag);
        file.write<T>(stored.path, to_host<T>(parameters.backend(), stored.tensor),
                      extent_of(stored.tensor.shape()));
      });
    }
    file.make_group("state");
    file.set_attribute("state", "run_id", state.run_id);
    file.set_attribute("state", "step", state.step);
    file.set_attribute("state", "tokens", state.tokens);
    file.set_attribute("state", "train_rows", state.train_rows);
    file.set_attribute("state", "valid_rows", state.valid_rows);
    file.set_attribute("state", "plateau_factor", state.plateau.factor);
    file.set_attribute("state", "plateau_best", state.plateau.best);
    file.set_attribute("state", "plateau_seen", state.plateau.seen);
    write_carry(file, state.carry);
  });
}

CheckpointState load_checkpoint(const std::filesystem::path& path, const std::string& run_id,
                                nn::Parameters& parameters, optim::Optimizer* optimizer) {
  const h5::File file = h5::File::open(path);
  const CheckpointState state = read_state(file);
  expect(state.run_id == run_id, "checkpoint", "{}: belongs to run {}, expected one of run {}", path.string(),
         state.run_id, run_id);
  const std::vector<Stored> wanted = stored_arrays(parameters, optimizer);
  expect_names(file, "params", wanted);
  if (optimizer) expect_names(file, "optim", wanted);
  for (const Stored& stored : wanted)
    expect(file.shape(stored.path) == extent_of(stored.tensor.shape()), "checkpoint",
           "{}: {} does not have shape {}", path.string(), stored.path, stored.tensor.shape().str());
  for (const Stored& stored : wanted) {
    dispatch_float(stored.tensor.dtype(), "checkpoint", [&](auto tag) {
      using T = decltype(tag);
      std::vector<T> host(stored.tensor.size());
      file.read_into(stored.path, host.data(), extent_of(stored.tensor.shape()));
      parameters.backend().copy_in(stored.tensor.data<T>(), host.data(), sizeof(T) * host.size());
    });
  }
  if (optimizer) optimizer->set_updates(state.step);
  return state;
}

CheckpointState read_checkpoint_state(const std::filesystem::path& path) {
  return read_state(h5::File::open(path));
}

}  // namespace copylab
