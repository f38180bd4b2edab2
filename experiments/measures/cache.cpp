// cache: the memory that a sequence keeps while text is generated.
#include "experiments/measures/cache.h"

namespace copylab {
namespace {

std::vector<Field> fields() {
  return {{"measure.cache.lengths", std::vector<int64_t>{},
           "lengths of sequences; empty = the task's, and 4 and 16 times that"}};
}

std::vector<int64_t> lengths_of(const MeasureInput& in) {
  const int64_t length = in.task.length();
  std::vector<int64_t> lengths = in.settings.integers("measure.cache.lengths");
  if (lengths.empty()) lengths = {length, 4 * length, 16 * length};
  for (const int64_t n : lengths)
    expect_config(n > 0, "measure.cache.lengths: positive lengths expected: got {}", n);
  return lengths;
}

void run(const MeasureInput& in, MeasureOutput& out) {
  const int64_t length = in.task.length();
  const std::vector<int64_t> lengths = lengths_of(in);

  // The same backbone with full attention everywhere and a plain head: what the memory is compared with.
  Settings plain = in.settings;
  plain.set("model.backbone", std::string("full"));
  plain.set("head.kind", std::string("vanilla"));
  for (const Field& field : nn::find_head("vanilla").fields()) plain.set(field.path, field.fallback);
  const nn::Model full(in.backend, DType::f32, plain, in.task.vocab(), length);

  std::vector<double> bytes, ratios;
  for (const int64_t n : lengths) {
    bytes.push_back(static_cast<double>(in.model.cache_bytes(n)));
    ratios.push_back(static_cast<double>(full.cache_bytes(n)) / bytes.back());
  }
  const int64_t count = static_cast<int64_t>(lengths.size());
  out.coordinate("length", {lengths.begin(), lengths.end()});
  out.array("bytes", bytes, {count}, {"length"},
            "float32 keys and values of all layers, up to their windows, and copy keys of one sequence");
  out.array("full_ratio", ratios, {count}, {"length"},
            "bytes of a full-attention model of this shape without copy keys, over these");
  out.scalar("bytes_per_token", bytes.front() / static_cast<double>(lengths.front()),
             "bytes over tokens, at the first length");
}

double plan(const MeasureInput& in) {
  lengths_of(in);
  return 0;
}

}  // namespace

const MeasureEntry cache_measure = {
    "cache", "bytes kept per sequence when generating, and what full attention would keep (C9, C10, C22)",
    fields, run, plan};

}  // namespace copylab
