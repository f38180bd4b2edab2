// Process: a child program whose two outputs are read line by line without blocking.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace copylab {

class Process {
 public:
  // Starts command[0] with its arguments and "NAME=value" additions to the environment, in a process group of
  // its own. It gets SIGTERM if this process dies. Throws Error if no process can be made.
  explicit Process(const std::vector<std::string>& command, const std::vector<std::string>& environment = {});
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Hands over the lines that have come; `error` tells stderr from stdout.
  void read(const std::function<void(const std::string& line, bool error)>& on_line);
  // True once it has ended and all of its output was read.
  bool finished();
  void signal(int number) const;  // to the whole group

  int exit_code() const;       // -1 if a signal ended it
  std::string ending() const;  // "exit code 1", "killed by signal 9 (Killed)"

  // Returns when one of them has output or has ended, or after the time.
  static void wait(const std::vector<Process*>& processes, int milliseconds);

 private:
  struct Pipe {
    int fd = -1;
    std::string rest;  // the start of a line that is not complete
  };
  void drain(Pipe& pipe, bool error, const std::function<void(const std::string&, bool)>& on_line);

  pid_t pid_ = -1;
  Pipe out_, err_;
  bool ended_ = false;
  int status_ = 0;  // of waitpid
};

// The file of the running program.
std::string this_program();

// For the first line of main. Threads that wait for others spin for long by default; where other programs
// compute, that takes the processors from the very threads that are waited for: a matrix product was 50 times
// slower. The OpenMP library reads GOMP_SPINCOUNT before main begins, so this starts the program anew with a
// small one, which its children inherit, unless the user has set that or OMP_WAIT_POLICY.
void spin_shortly(char** argv);

}  // namespace copylab
