// Same bits for any number of threads.
#include "experiments/check/check_threads.h"

#include <fmt/format.h>
#include <omp.h>

#include "core/nn/head.h"
#include "experiments/check/check_settings.h"
#include "experiments/check/training_hash.h"

namespace copylab {

uint64_t hash_with_threads(const Settings& settings, int64_t updates, int threads) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  const uint64_t hash = training_hash(cpu_backend(), settings, updates).hash;
  omp_set_num_threads(before);
  return hash;
}

int check_threads(std::ostream& out) {
  bool equal = true;
  const auto compare = [&](const std::string& name, const Settings& settings) {
    const uint64_t reference = hash_with_threads(settings, 5, 1);
    out << fmt::format("{:<12} 1 thread   {:016x}\n", name, reference);
    for (int threads : {2, 3}) {
      const uint64_t hash = hash_with_threads(settings, 5, threads);
      out << fmt::format("{:<12} {} threads  {:016x} {}\n", name, threads, hash,
                         hash == reference ? "equal" : "DIFFERENT");
      equal = equal && hash == reference;
    }
  };
  // Wide enough that every kind of kernel divides its work.
  for (const nn::HeadEntry& head : nn::head_registry())
    compare(head.name, check_settings({std::string("head.kind=") + head.name, "task.vocab=3000",
                                       "task.length=64", "model.dim=64", "model.heads=4", "model.kv_heads=2",
                                       "model.ffn=160", "model.layers=2", "train.batch=16"}));
  std::vector<std::string> stream = stream_changes();
  for (const char* wider : {"task.lanes=20", "train.batch=20", "task.length=64", "model.dim=96"})
    stream.push_back(wider);
  compare("lstm stream", check_settings(stream));
  return equal ? 0 : 3;
}

}  // namespace copylab
