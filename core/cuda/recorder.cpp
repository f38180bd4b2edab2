// The recorder: a step graph that trusts no promise. A recorded step runs again only after the work itself,
// called with the machine held back, has asked for the same launches, products, sorts, copies and fills in
// the same order. Where only a launch's grid or arguments differ (a dropout's step, a learning rate), that
// launch is updated.
#include "core/cuda/recorder.h"

#include <cstring>
#include <vector>

#include "core/cuda/capture.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {
namespace {

// What was asked for once: a launch, or something else.
struct Command {
  const void* what;              // the kernel, or the name of something else
  void* launch;                  // in the capture; null for something else
  int64_t blocks, threads;       // of a launch
  std::vector<std::byte> bytes;  // all arguments, one after the other; or the key
};

std::vector<std::byte> pack(const Launch& launch) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < launch.count; ++i) {
    const auto* argument = static_cast<const std::byte*>(launch.arguments[i]);
    bytes.insert(bytes.end(), argument, argument + launch.sizes[i]);
  }
  return bytes;
}

bool same_arguments(const Launch& launch, const std::vector<std::byte>& bytes) {
  size_t at = 0;
  for (int i = 0; i < launch.count; at += launch.sizes[i++])
    if (std::memcmp(launch.arguments[i], bytes.data() + at, launch.sizes[i]) != 0) return false;
  return true;
}

class Recorder : public StepGraph {
 public:
  explicit Recorder(bool always) : always_(always) {}

  void run(const std::function<void()>& work) override {
    if (warm_ && !given_up_) {
      if (capture_ && compare(work)) {
        misses_ = 0;
        return repeat(counts_.repeated);
      }
      const bool missed = capture_ != nullptr;
      capture_.reset();
      if (!missed || always_) {
        record(work);
        return repeat(counts_.recorded);
      }
      given_up_ = ++misses_ == kMostMisses;
    }
    // The first run loads libraries and fills the allocator, which a recording does not want to see.
    work();
    warm_ = true;
    ++counts_.direct;
  }

  void submit(const Launch& launch) {
    if (recording_) {
      start(launch);
      commands_.push_back(
          {launch.kernel, capture_->last(), launch.grid.blocks, launch.grid.threads, pack(launch)});
      return;
    }
    Command* command = expected(launch.kernel);
    if (!command) return;
    const bool same_grid = command->blocks == launch.grid.blocks && command->threads == launch.grid.threads;
    if (same_grid && same_arguments(launch, command->bytes)) return;
    command->blocks = launch.grid.blocks;
    command->threads = launch.grid.threads;
    command->bytes = pack(launch);
    capture_->update(command->launch, launch);
    ++counts_.updated;
  }
  // True if the machine is to be asked.
  bool submit(const char* what, std::initializer_list<int64_t> key) {
    const auto* bytes = reinterpret_cast<const std::byte*>(key.begin());
    const size_t size = key.size() * sizeof(int64_t);
    if (recording_) {
      commands_.push_back({what, nullptr, 0, 0, {bytes, bytes + size}});
      return true;
    }
    const Command* command = expected(what);
    if (command && (command->bytes.size() != size || std::memcmp(command->bytes.data(), bytes, size) != 0))
      alike_ = false;
    return false;
  }
  void postpone(void* to, const void* from, size_t bytes) {
    const auto* data = static_cast<const std::byte*>(from);
    uploads_.push_back({to, uploaded_.size(), bytes});
    uploaded_.insert(uploaded_.end(), data, data + bytes);
  }

  static Recorder* current;  // whose work is running, and is not to be done command by command

 private:
  static constexpr int kMostMisses = 3;

  // The machine is held back while one of these lives.
  class Holding {
   public:
    explicit Holding(Recorder* recorder) {
      if (current) fail("cuda", "a step graph inside another");
      current = recorder;
      recorder->uploads_.clear();
      recorder->uploaded_.clear();
    }
    ~Holding() { current = nullptr; }
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
  };

  void record(const std::function<void()>& work) {
    commands_.clear();
    recording_ = true;
    try {
      const Holding holding(this);
      capture_ = std::make_unique<Capture>();
      work();
      capture_->finish();
    } catch (...) {
      recording_ = false;
      capture_.reset();
      throw;
    }
    recording_ = false;
  }
  // Does `work` ask for what is recorded?
  bool compare(const std::function<void()>& work) {
    const Holding holding(this);
    next_ = 0;
    alike_ = true;
    try {
      work();
    } catch (...) {
      capture_.reset();  // some launches may have been updated
      throw;
    }
    return alike_ && next_ == commands_.size();
  }
  // The next recorded command if it is `what`; null from the first difference on.
  Command* expected(const void* what) {
    alike_ = alike_ && next_ < commands_.size() && commands_[next_].what == what;
    return alike_ ? &commands_[next_++] : nullptr;
  }
  void repeat(int64_t& count) {
    for (const Upload& upload : uploads_)
      copy_to_device(upload.to, uploaded_.data() + upload.at, upload.bytes);
    capture_->run();
    ++count;
  }

  struct Upload {
    void* to;
    size_t at, bytes;  // in uploaded_
  };
  const bool always_;
  bool warm_ = false, given_up_ = false, recording_ = false, alike_ = true;
  int misses_ = 0;  // in a row
  std::unique_ptr<Capture> capture_;
  std::vector<Command> commands_;
  size_t next_ = 0;
  std::vector<Upload> uploads_;
  std::vector<std::byte> uploaded_;
};
Recorder* Recorder::current = nullptr;

}  // namespace

void submit(const Launch& launch) {
  if (Recorder::current)
    Recorder::current->submit(launch);
  else
    start(launch);
}

bool wanted(const char* what, std::initializer_list<int64_t> key) {
  return !Recorder::current || Recorder::current->submit(what, key);
}

bool postponed(void* to, const void* from, size_t bytes) {
  if (Recorder::current) Recorder::current->postpone(to, from, bytes);
  return Recorder::current != nullptr;
}

void expect_no_recording() {
  if (Recorder::current) fail("cuda", "a step that runs as a graph reads what it computes");
}

std::unique_ptr<StepGraph> step_graph(bool always) {
  return std::make_unique<Recorder>(always);
}

}  // namespace copylab::cuda
