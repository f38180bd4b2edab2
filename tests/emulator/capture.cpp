// Captures on the emulated device: a list of what is to be done, with the arguments as they were.
#include "core/cuda/capture.h"

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "core/error.h"
#include "tests/emulator/emulator.h"

namespace copylab::cuda {
namespace {

// A launch with copies of its arguments.
class KeptLaunch {
 public:
  explicit KeptLaunch(const Launch& launch) : launch_(launch) {
    for (int i = 0; i < launch.count; ++i) {
      copies_.push_back(std::make_unique<std::byte[]>(launch.sizes[i]));  // aligned for everything
      std::memcpy(copies_.back().get(), launch.arguments[i], launch.sizes[i]);
      addresses_.push_back(copies_.back().get());
    }
  }
  void run() const {
    Launch launch = launch_;
    launch.arguments = addresses_.data();
    emulator::run(launch);
  }

 private:
  Launch launch_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  std::vector<void*> addresses_;
};

using Commands = std::vector<std::function<void()>>;
Commands* filling = nullptr;  // those of the capture that goes on

}  // namespace

struct Capture::State {
  Commands kept;
};

Capture::Capture() : state_(std::make_unique<State>()) {
  expect(filling == nullptr, "emulator", "a capture inside another");
  filling = &state_->kept;
}
Capture::~Capture() {
  if (filling == &state_->kept) filling = nullptr;
}
void* Capture::last() const {
  return reinterpret_cast<void*>(state_->kept.size());
}
void Capture::finish() {
  filling = nullptr;
}
void Capture::update(void* which, const Launch& launch) {
  const auto kept = std::make_shared<KeptLaunch>(launch);
  state_->kept.at(reinterpret_cast<uintptr_t>(which) - 1) = [kept] { kept->run(); };
}
void Capture::run() {
  for (const auto& command : state_->kept) command();
}

void start(const Launch& launch) {
  const auto kept = std::make_shared<KeptLaunch>(launch);
  emulator::perform([kept] { kept->run(); });
}

void emulator::perform(std::function<void()> command) {
  if (filling)
    filling->push_back(std::move(command));
  else
    command();
}

}  // namespace copylab::cuda
