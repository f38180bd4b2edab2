// copylab doctor: what this build and machine are made of, and whether the parts fit.
#include <fmt/format.h>
#include <omp.h>
#include <Eigen/Core>

#include <variant>

#include "core/backend.h"
#include "core/cuda/gpu.h"
#include "core/io/hdf5.h"
#include "experiments/cli/common.h"
#include "experiments/cli/verbs.h"
#include "experiments/store/provenance.h"
#include "experiments/train/memory.h"
#include "tasks/text/cache.h"

namespace copylab {
namespace {

std::string text_of(const h5::Attribute& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "yes" : "no";
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return "";
}

int report() {
  Table table({"part", "here"});
  for (const auto& [name, value] : provenance("cpu", omp_get_max_threads()))
    table.add({name, text_of(value)});
  table.add({"processors", fmt::format("{}", omp_get_num_procs())});
  table.add({"free memory", fmt::format("{:.1f} GiB", static_cast<double>(available_memory()) / (1 << 30))});
  table.add({"cache of tokenizers", text::cache_folder().empty() ? "none" : text::cache_folder().string()});
  table.add({"eigen", fmt::format("{}.{}.{}, {}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION,
                                  EIGEN_MINOR_VERSION, Eigen::SimdInstructionSetsInUse())});
  const char* why = "";
  table.add({"cuda", cuda_backend(&why) ? "available" : why});
  for (const auto& [name, value] : gpu_facts()) table.add({name, value});
  fmt::print("{}HDF5 headers {}, library {}\n", table.text(), h5::header_version(), h5::library_version());
  try {
    h5::check_version();
  } catch (const Error& error) {
    fmt::print("problem: {}\n", error.what());
    return 3;
  }
  fmt::print("no problems found\n");
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand(
      "doctor", "versions, processor, threads and devices; exit code 3 if they do not fit");
  verb->callback([&invocation] { invocation.action = report; });
}

}  // namespace copylab
