// Batches as arrays: what the trainer asks the task for, in the same order.
#include "experiments/evaluate/export_batches.h"

#include "core/io/hdf5.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/evaluate.h"
#include "experiments/train/memory.h"
#include "experiments/train/train_plan.h"

namespace copylab {

void export_batches(const Settings& settings, Split split, int64_t first, int64_t last,
                    const std::filesystem::path& out) {
  expect(first >= 0 && first < last, "data", "steps A:B with 0 <= A < B expected: got {}:{}", first, last);
  const auto task = find_task(settings.text("task.name")).make(settings);
  const TrainPlan plan = train_plan(settings, *task);
  const auto seed = static_cast<uint64_t>(settings.integer("train.seed"));
  const double size =
      6.0 * sizeof(int32_t) * static_cast<double>(last - first) * static_cast<double>(plan.tokens_per_step());
  const auto available = static_cast<double>(available_memory());
  expect(available == 0 || size <= available, "data",
         "steps {}:{} need up to {:.4g} GiB, {:.4g} GiB are available: export fewer steps at a time", first,
         last, size / (1 << 30), available / (1 << 30));
  std::vector<int32_t> tokens, targets, segment, slice, bytes, meta, fresh, advance;
  const auto append = [](std::vector<int32_t>& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (int64_t i = first * plan.accumulate; i < last * plan.accumulate; ++i) {
    const Batch batch = task->batch(split, seed, i, plan.batch);
    append(tokens, batch.tokens);
    append(targets, batch.targets);
    append(segment, batch.segment);
    append(slice, batch.slice);
    append(bytes, batch.bytes);
    append(meta, batch.meta);
    if (task->lanes() > 0) {
      fresh.push_back(batch.fresh);
      advance.push_back(static_cast<int32_t>(batch.advance));
    }
  }
  h5::write_file(out, [&](h5::File& file) {
    const h5::Extent shape{last - first, plan.sequences_per_step(), plan.length};
    const std::vector<std::string> dims = {"step", "sequence", "position"};
    std::vector<int64_t> steps;
    for (int64_t step = first; step < last; ++step) steps.push_back(step);
    file.write<int64_t>("step", steps);
    if (!fresh.empty()) {
      file.write<int32_t>("fresh", fresh, {last - first}, {"step"});
      file.write<int32_t>("advance", advance, {last - first}, {"step"});
    }
    for (const auto& [name, values] : {std::pair{"tokens", &tokens},
                                       {"targets", &targets},
                                       {"segment", &segment},
                                       {"slice", &slice},
                                       {"bytes", &bytes},
                                       {"meta", &meta}}) {
      if (values->empty()) continue;
      file.write<int32_t>(name, *values, shape, dims);
      file.attach_scale(name, 0, "step");
    }
    file.set_attribute("/", "config", to_yaml(settings));
    file.set_attribute("/", "split", std::string(name_of(split)));
    file.set_attribute("/", "slices", task->slices());
  });
}

}  // namespace copylab
