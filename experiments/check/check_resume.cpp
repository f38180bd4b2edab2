// Kill, resume, compare.
#include "experiments/check/check_resume.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>

#include "core/io/hdf5.h"
#include "core/random.h"
#include "experiments/check/check_settings.h"
#include "experiments/clock.h"
#include "experiments/config/resolve.h"
#include "experiments/evaluate/loaded_run.h"
#include "experiments/schedule/process.h"
#include "experiments/store/checkpoint.h"
#include "experiments/store/metrics.h"
#include "experiments/store/run_folder.h"
#include "experiments/train/train_plan.h"

namespace copylab {
namespace fs = std::filesystem;
namespace {

// NaN equals NaN here, and 0 does not equal -0.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), sizeof(T) * a.size()) == 0);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "copylab-check-XXXXXX").string();
    expect(mkdtemp(name.data()) != nullptr, "check", "cannot make a folder like {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

fs::path new_run(const fs::path& parent, const std::string& name, const Settings& settings) {
  const fs::path run = parent / (name + "-" + run_id(settings));
  fs::create_directory(run);
  h5::write_text(RunFolder{run}.config(), to_yaml(settings));
  return run;
}

// Runs the worker to its end, or kills it when `stop` says so; returns whether it ended by itself, and throws
// if that was with a failure.
bool run_process(std::vector<std::string> command, const fs::path& run, const std::function<bool()>& stop) {
  command.push_back(run.string());
  Process process(command);
  std::string last_error;
  const auto collect = [&](const std::string& line, bool error) {
    if (error) last_error = line;
  };
  while (!process.finished()) {
    if (stop && stop()) {
      process.signal(SIGKILL);
      while (!process.finished()) {
        process.read([](const std::string&, bool) {});
        Process::wait({&process}, 5);
      }
      return false;
    }
    process.read(collect);
    Process::wait({&process}, 2);
  }
  process.read(collect);
  expect(process.exit_code() == 0, "check", "{}: {}: {}", run.string(), process.ending(), last_error);
  return true;
}

bool run_to_end(const std::vector<std::string>& command, const fs::path& run) {
  return run_process(command, run, nullptr);
}

bool has_begun(const fs::path& run) {
  std::error_code error;
  return fs::exists(RunFolder{run}.checkpoint(), error);
}

// Changes what resuming starts from.
void edit_checkpoint(const fs::path& run,
                     const std::function<void(optim::Optimizer&, CheckpointState&)>& change) {
  const Settings settings = load_settings(RunFolder{run}.config());
  const auto task = find_task(settings.text("task.name")).make(settings);
  const auto model = make_model(settings, *task, cpu_backend());
  model->allocate();
  optim::Optimizer optimizer(model->parameters(), train_plan(settings, *task).optimizer);
  const fs::path file = RunFolder{run}.checkpoint();
  CheckpointState state = load_checkpoint(file, run_id(settings), model->parameters(), &optimizer);
  change(optimizer, state);
  save_checkpoint(file, state, model->parameters(), &optimizer);
}

// A kind of run to kill: its settings, what must not get lost, and a run that nobody disturbed.
struct Kind {
  std::string name;
  Settings settings;
  std::string lost;
  std::function<void(optim::Optimizer&, CheckpointState&)> lose;
  fs::path reference;
  double duration = 0;  // seconds
};

std::vector<Kind> kinds() {
  Kind plain{"plain", check_settings(), "Adam's v", {}, {}};
  plain.lose = [](optim::Optimizer& optimizer, CheckpointState&) {
    for (const auto& buffer : optimizer.state())
      if (buffer.name.rfind("v.", 0) == 0)
        std::fill_n(buffer.tensor.data<float>(), buffer.tensor.size(), 0.0f);
  };
  Kind stream{"stream", check_settings(stream_changes()), "what its streams carry", {}, {}};
  stream.lose = [](optim::Optimizer&, CheckpointState& state) { state.carry.clear(); };
  return {plain, stream};
}

}  // namespace

std::string difference_of_runs(const fs::path& a, const fs::path& b) {
  const h5::File weights_a = h5::File::open(RunFolder{a}.checkpoint());
  const h5::File weights_b = h5::File::open(RunFolder{b}.checkpoint());
  for (const char* group : {"params", "optim"}) {
    if (weights_a.list(group) != weights_b.list(group)) return "names of weights";
    for (const std::string& name : weights_a.list(group)) {
      const std::string path = std::string(group) + "/" + name;
      if (!same_bits(weights_a.read<float>(path).values, weights_b.read<float>(path).values)) return path;
    }
  }
  const h5::File file_a = h5::File::open(RunFolder{a}.metrics());
  const h5::File file_b = h5::File::open(RunFolder{b}.metrics());
  for (const char* group : {"train", "eval/valid", "eval/test"}) {
    if (file_a.list(group) != file_b.list(group)) return std::string("members of ") + group;
    for (const std::string& name : file_a.list(group)) {
      const std::string path = std::string(group) + "/" + name;
      if (name == "tokens_per_s" || file_a.holds_text(path)) continue;
      const bool integer = name == "step" || (name == "tokens" && std::string(group) != "eval/test");
      const bool same = integer
                            ? same_bits(file_a.read<int64_t>(path).values, file_b.read<int64_t>(path).values)
                            : same_bits(file_a.read<double>(path).values, file_b.read<double>(path).values);
      if (!same) return path;
    }
  }
  return "";
}

int check_resume(const std::vector<std::string>& worker, int kills, std::ostream& out) {
  const TemporaryFolder folder;
  std::vector<Kind> all = kinds();
  for (Kind& kind : all) {
    kind.reference = new_run(folder.path(), "reference", kind.settings);
    const Clock::time_point begin = Clock::now();
    run_to_end(worker, kind.reference);
    kind.duration = seconds_since(begin);
  }

  int equal = 0;
  const Random random(static_cast<uint64_t>(Clock::now().time_since_epoch().count()), "check.resume");
  for (int i = 0; i < kills; ++i) {
    const Kind& kind = all[i % all.size()];
    const fs::path run = new_run(folder.path(), fmt::format("killed{}", i), kind.settings);
    std::string where = "before its first checkpoint";
    // The machine may be busier or less busy than before: try until the run is alive at the chosen moment.
    for (double span = kind.duration;; span *= 0.8) {
      const double moment = span * random.uniform(static_cast<uint64_t>(1000 * i) + (span < kind.duration));
      const Clock::time_point start = Clock::now();
      if (!run_process(worker, run, [&] { return seconds_since(start) > moment; })) break;
      fs::remove_all(run);
      new_run(folder.path(), fmt::format("killed{}", i), kind.settings);
    }
    if (has_begun(run)) {
      const int64_t step = read_checkpoint_state(RunFolder{run}.checkpoint()).step;
      const size_t rows = read_metrics(RunFolder{run}.metrics()).train.size();
      where = fmt::format("after step {} was saved; metrics.h5 opens, {} rows", step, rows);
    }
    run_to_end(worker, run);
    const std::string difference = difference_of_runs(kind.reference, run);
    out << fmt::format("{:>3} {:<6}: killed {}: {}\n", i + 1, kind.name, where,
                       difference.empty() ? "equal" : "DIFFERENT in " + difference)
        << std::flush;
    equal += difference.empty();
    fs::remove_all(run);
  }
  out << fmt::format("{} x equal of {}\n", equal, kills);

  bool seen = true;
  for (const Kind& kind : all) {
    const fs::path control = new_run(folder.path(), "control", kind.settings);
    while (run_process(worker, control, [&] { return has_begun(control); })) {
      fs::remove_all(control);
      new_run(folder.path(), "control", kind.settings);
    }
    edit_checkpoint(control, kind.lose);
    run_to_end(worker, control);
    const std::string difference = difference_of_runs(kind.reference, control);
    out << fmt::format("control, {} resumed without {}: {}\n", kind.name, kind.lost,
                       difference.empty() ? "EQUAL: this check sees nothing" : "differs, as it must");
    seen = seen && !difference.empty();
  }
  return equal == kills && seen ? 0 : 3;
}

}  // namespace copylab
