// Child processes by fork and exec, their output by poll.
#include "experiments/schedule/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/error.h"

extern char** environ;

namespace copylab {
namespace {

struct Ends {
  int read, write;
};

Ends make_pipe() {
  int ends[2];
  expect(pipe2(ends, O_CLOEXEC) == 0, "process", "a pipe cannot be made: {}", std::strerror(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// This environment with additions, which win.
std::vector<std::string> environment_with(const std::vector<std::string>& additions) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const std::string& addition : additions) {
      replaced |= text.starts_with(addition.substr(0, addition.find('=') + 1));
    }
    if (!replaced) out.push_back(text);
  }
  out.insert(out.end(), additions.begin(), additions.end());
  return out;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = environment_with(environment);
  std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const Ends out = make_pipe(), err = make_pipe();
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {  // only async-signal-safe calls from here on
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
#endif
    dup2(out.write, STDOUT_FILENO);
    dup2(err.write, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  (void)parent;
  close(out.write);
  close(err.write);
  out_.fd = out.read;
  err_.fd = err.read;
  expect(pid_ > 0, "process", "no process can be made: {}", std::strerror(errno));
  setpgid(pid_, pid_);  // also here, so that signal() is right from now on
}

Process::~Process() {
  if (!ended_ && pid_ > 0) {
    signal(SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  for (const Pipe* pipe : {&out_, &err_}) {
    if (pipe->fd >= 0) close(pipe->fd);
  }
}

void Process::drain(Pipe& pipe, bool error, const std::function<void(const std::string&, bool)>& on_line) {
  char buffer[4096];
  while (pipe.fd >= 0) {
    const ssize_t n = ::read(pipe.fd, buffer, sizeof buffer);
    if (n > 0) {
      pipe.rest.append(buffer, static_cast<size_t>(n));
    } else if (n == 0) {
      close(pipe.fd);
      pipe.fd = -1;
      if (!pipe.rest.empty()) pipe.rest += '\n';
    } else if (errno != EINTR) {
      break;  // nothing more for now
    }
    for (size_t end; (end = pipe.rest.find('\n')) != std::string::npos; pipe.rest.erase(0, end + 1)) {
      on_line(pipe.rest.substr(0, end), error);
    }
  }
}

void Process::read(const std::function<void(const std::string& line, bool error)>& on_line) {
  drain(out_, false, on_line);
  drain(err_, true, on_line);
}

bool Process::finished() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_ && out_.fd < 0 && err_.fd < 0;
}

void Process::signal(int number) const {
  if (!ended_) kill(-pid_, number);
}

int Process::exit_code() const {
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
}

std::string Process::ending() const {
  if (WIFEXITED(status_)) return fmt::format("exit code {}", WEXITSTATUS(status_));
  const int number = WTERMSIG(status_);
  return fmt::format("killed by signal {} ({})", number, strsignal(number));
}

void Process::wait(const std::vector<Process*>& processes, int milliseconds) {
  std::vector<pollfd> fds;
  for (const Process* process : processes) {
    for (const Pipe* pipe : {&process->out_, &process->err_}) {
      if (pipe->fd >= 0) fds.push_back({pipe->fd, POLLIN, 0});
    }
  }
  poll(fds.data(), fds.size(), milliseconds);
}

std::string this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

void spin_shortly(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "10000", 1);
  execv(this_program().c_str(), argv);  // where that fails, everything works, only slower
}

}  // namespace copylab
