// The command line: exit codes, messages on one line, help of every verb, and the verbs that run nothing.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/backend.h"
#include "core/io/hdf5.h"
#include "experiments/check/check_settings.h"
#include "experiments/cli/run_cells.h"
#include "experiments/cli/verbs.h"
#include "tests/catch.h"
#include "tests/messages.h"
#include "tests/temporary_folder.h"

using namespace copylab;
using copylab::testing::contains;
using namespace copylab::testing;

namespace {

struct Result {
  int code;
  std::string out, err;
};

// What goes to a file descriptor until read().
class Capture {
 public:
  explicit Capture(int fd) : fd_(fd), saved_(dup(fd)), file_(std::tmpfile()) { dup2(fileno(file_), fd_); }
  std::string read() {
    std::fflush(nullptr);
    dup2(saved_, fd_);
    close(saved_);
    std::string text;
    std::rewind(file_);
    for (int c; (c = std::fgetc(file_)) != EOF;) text += static_cast<char>(c);
    std::fclose(file_);
    return text;
  }

 private:
  int fd_, saved_;
  std::FILE* file_;
};

// Runs from the source folder, so that configs/ is found.
Result call(std::vector<const char*> words) {
  words.insert(words.begin(), "copylab");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(COPYLAB_SOURCE_DIR);
  std::fflush(nullptr);
  Capture out(STDOUT_FILENO), err(STDERR_FILENO);
  const int code = run_cli(static_cast<int>(words.size()), words.data());
  Result result{code, out.read(), ""};
  result.err = err.read();
  std::filesystem::current_path(before);
  return result;
}

}  // namespace

TEST_CASE("A wrong command line is exit code 2 and one line that says what was expected", "[cli]") {
  const std::vector<std::pair<std::vector<const char*>, std::string>> table = {
      {{"rnu", "spamlang"}, "did you mean 'run'?"},
      {{"run", "spamlagn"}, "unknown experiment 'spamlagn': expected a YAML file or one of "},
      {{"run", "spamlang", "--preset", "smok"}, "did you mean 'smoke'?"},
      {{"run", "spamlang", "train.rl=1"}, "unknown key 'train.rl'; did you mean 'train.lr'?"},
      {{"run", "spamlang", "train.lr=fast"}, "train.lr: expected a number"},
      {{"run", "spamlang", "train.seed=-1"}, "train.seed: expected an integer, 0 or more, got '-1'"},
      {{"run", "spamlang", "--seeds", "1001"}, "--seeds: expected an integer from 1 to 100, got '1001'"},
      {{"run", "spamlang", "--seeds", "none"}, "--seeds: expected an integer from 1 to 100, got 'none'"},
      {{"run", "spamlang", "--device", "gpu"}, "run.device: expected one of cpu, cuda, got 'gpu'"},
      {{"run", "spamlang", "--jobs", "0"}, "--jobs"},
      {{"run", "spamlang", "--out", ""}, "--out: expected a value, got ''"},
      {{"run", "spamlang", "--arms", ""}, "--arms: expected a value, got ''"},
      {{"run", "spamlang", "model.heads=3"}, "model.heads = 3 must divide model.dim = 64"},
      {{"plan", "spamlang", "model.heads=3"}, "(run vanilla-vocab64-"},
      {{"plan", "gradient-rank", "measure.gradient_rank.tokens=[512,256]"},
       "measure.gradient_rank.tokens: ascending positive batch sizes"},
      {{"data", "spamlang", "task.period=65", "--show"}, "task.period must not exceed task.length"},
      {{"run"}, "NAME is required"},
      {{"sweep", "spamlang"}, "key=values is required"},
      {{"sweep", "spamlang", "task.vocab"}, "'task.vocab': expected key=value, for example train.lr=1e-3"},
      {{"data", "spamlagn", "--show"}, "task.name: expected one of "},
      {{"data", "spamlang"}, "--out or --show is required"},
      {{"data", "spamlang", "--show", "--steps", "3"},
       "--steps: expected FROM:TO with FROM < TO, at most 1000000000000, got '3'"},
      {{"data", "spamlang", "--show", "--steps", "0:9000000000000000000"}, "at most 1000000000000, got '0:9"},
      {{"data", "spamlang", "--show", "0"}, "--show: Value 0 not in range 1 to 1000000"},
      {{"check", "gradient"}, "unknown verb 'check gradient': expected one of gradients, threads, "},
      {{"check"}, "check alone: expected one of gradients, "},
      {{"generate", "x", "--prompt", "y", "--from", "/nonexistent"},
       "'x': expected a run's folder or a part"},
      {{"generate", "x", "--prompt", "y", "--mode", "copy"},
       "--mode: copy not in {natural,no_copy,force_copy}"},
      {{"show", "nothing", "--from", "/nonexistent"},
       "'nothing': expected a run's folder or a part of its name"},
      {{"status", "/nonexistent"}, "/nonexistent: is not a folder with results"},
      {{"verify", "spamlang", "--from", "/nonexistent"}, "is not there: make it with `copylab run spamlang"},
      {{}, "copylab alone: expected one of list, plan, run, "},
  };
  for (const auto& [words, expected] : table) {
    const Result result = call(words);
    INFO("gave: " << result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, expected));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.out.empty());
  }
}

TEST_CASE("Every verb explains itself", "[cli]") {
  for (const char* verb : {"list", "plan", "run", "sweep", "figures", "verify", "status", "show", "measure",
                           "eval", "generate", "data", "check", "bench", "doctor", "test"}) {
    const Result result = call({verb, "--help"});
    INFO(verb << ": " << result.err);
    CHECK(result.code == 0);
    CHECK(contains(result.out, "Usage: copylab "));
  }
  const Result all = call({"--help"});
  CHECK(all.code == 0);
  CHECK(contains(all.out, "Exit codes: 0 done"));
  CHECK_FALSE(contains(all.out, "worker"));
}

TEST_CASE("list, plan, doctor and data run nothing and say what there is", "[cli]") {
  CHECK(contains(call({"list"}).out, "spamlang"));
  const Result config = call({"list", "config"});
  CHECK(config.code == 0);
  CHECK(contains(config.out, "train.lr"));
  CHECK(contains(config.out, "[head.kind=copy_paste]"));
  const Result plan = call({"plan", "spamlang", "--preset", "smoke"});
  INFO(plan.err);
  CHECK(plan.code == 0);
  CHECK(contains(plan.out, "parameters"));
  CHECK(contains(plan.out, "MiB are free now"));
  const Result doctor = call({"doctor"});
  CHECK(doctor.code == 0);
  CHECK(contains(doctor.out, "HDF5 headers "));

  const TemporaryFolder folder;
  const std::string file = (folder.path() / "batches.h5").string();
  const Result data = call({"data", "spamlang", "task.vocab=16", "task.length=8", "train.batch=3", "--steps",
                            "2:4", "--show", "--out", file.c_str()});
  INFO(data.err);
  CHECK(data.code == 0);
  CHECK(data.out.size() > file.size() + 3);
  CHECK(h5::File::open(file).shape("tokens") == h5::Extent{2, 3, 8});
}

TEST_CASE("--device cuda without a GPU is exit code 2 and one line that says what was found", "[cli]") {
  const bool built = COPYLAB_CUDA_BUILT;
  const char* why = "";
  const bool available = cuda_backend(&why) != nullptr;
  CHECK((built || !available));
  const Result plan = call({"plan", "spamlang", "--preset", "smoke", "--device", "cuda"});
  const Result doctor = call({"doctor"});
  INFO(plan.err << doctor.out);
  CHECK(contains(doctor.out, "cuda architectures") == built);
  CHECK(contains(doctor.out, "nvidia driver") == built);
  if (available) {
    CHECK(plan.code == 0);
    return;
  }
  const std::string found = why;
  CHECK(contains(found, "this build has no CUDA backend: ") == !built);
  CHECK((!built || contains(found, "NVIDIA driver") ||
         contains(found, " cannot run this build, which is for ")));
  const Result run = call({"run", "spamlang", "--preset", "smoke", "--device", "cuda"});
  for (const Result& result : {plan, run}) {
    CHECK(result.code == 2);
    CHECK(result.err == "copylab: --device cuda: " + found + "\n");
    CHECK(result.out.empty());
  }
}

TEST_CASE("status names a damaged sweep file and goes on", "[cli]") {
  const TemporaryFolder folder;
  for (const char* experiment : {"a", "b"}) {
    std::filesystem::create_directories(folder.path() / experiment);
    h5::write_text(folder.path() / experiment / "sweep-quick.h5", "no HDF5");
  }
  const Result result = call({"status", folder.path().c_str()});
  CHECK(result.code == 0);
  CHECK(contains(result.out, "a: no runs\n  unreadable sweep-quick.h5: "));
  CHECK(contains(result.out, "b: no runs\n  unreadable sweep-quick.h5: "));
}

TEST_CASE("CLI: what only a GPU can do is refused on the CPU, in one line", "[cli]") {
  for (const auto& [assignment, message] :
       {std::pair("run.precision=bf16", "run.precision=bf16: needs run.device=cuda"),
        std::pair("train.cuda_graph=on", "train.cuda_graph=on: needs run.device=cuda")}) {
    const Result result = call({"run", "spamlang", "--preset", "smoke", assignment, "--no-figures"});
    CHECK(result.code == 2);
    CHECK(contains(result.err, message));
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  }
}

TEST_CASE("CLI: runs on a GPU come one at a time unless --jobs says otherwise", "[cli]") {
  Cell on_cpu;
  on_cpu.stages.emplace_back();
  on_cpu.stages.back().settings = check_settings();
  Cell on_gpu = on_cpu;
  on_gpu.stages.push_back(on_gpu.stages.back());
  on_gpu.stages.back().settings.set("run.device", std::string("cuda"));
  CHECK(default_jobs({on_cpu, on_cpu}, 6) == 6);
  CHECK(default_jobs({on_cpu, on_gpu}, 6) == 1);
}
