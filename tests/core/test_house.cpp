// The house rules that a compiler does not check: includes point downwards, every file says what it is for,
// every op has a gradient check, and nothing is used that would break reproducibility.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/catch.h"

namespace fs = std::filesystem;

namespace {

const fs::path kRoot = COPYLAB_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Paths, relative to the root, of the C++ and CUDA files under `folder`.
std::vector<std::string> sources(const std::string& folder) {
  std::vector<std::string> out;
  if (!fs::exists(kRoot / folder)) return out;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
    const std::string extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh")
      out.push_back(fs::relative(entry.path(), kRoot).generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

// What a file may include, by the folder it lies in. The first rule that fits a path counts.
struct Rule {
  std::string folder;
  std::vector<std::string> may;      // prefixes of what may be included
  std::vector<std::string> but_not;  // exceptions from that
};
// (source_version.h is written by the build.)
const std::vector<Rule> kRules = {
    {"core/cpu/",
     {"core/"},
     {"core/ops/", "core/nn/", "core/optim/", "core/io/", "core/tape.h", "core/cuda/"}},
    {"core/cuda/",
     {"core/cuda/", "core/kernels.h", "core/backend.h", "core/step_graph.h", "core/random.h", "core/error.h"},
     {}},
    {"core/ops/", {"core/"}, {"core/nn/", "core/optim/", "core/io/", "core/cpu/", "core/cuda/"}},
    {"core/", {"core/"}, {}},
    {"tasks/", {"core/", "tasks/"}, {}},
    {"experiments/", {"core/", "tasks/", "experiments/", "source_version.h"}, {}},
    {"tests/", {"core/", "tasks/", "experiments/", "tests/"}, {}},
};

// The includes in quotes of a file that its path does not allow.
std::vector<std::string> forbidden_includes(const std::string& path, const std::string& text) {
  const auto rule =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return starts_with(path, r.folder); });
  const auto any_prefix = [](const std::string& include, const std::vector<std::string>& prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const std::string& prefix) { return starts_with(include, prefix); });
  };
  std::vector<std::string> out;
  static const std::regex kInclude("(^|\n)#include \"([^\"]+)\"");
  for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
    const std::string include = (*it)[2];
    if (rule == kRules.end() || !any_prefix(include, rule->may) || any_prefix(include, rule->but_not))
      out.push_back(include);
  }
  return out;
}

// The comment that a file opens with, joined into one line; "" if it opens with something else.
std::string opening_comment(const std::string& text) {
  std::istringstream in(text);
  std::string line, out;
  while (std::getline(in, line) && starts_with(line, "// ")) out += (out.empty() ? "" : " ") + line.substr(3);
  return out;
}

bool is_sentence(const std::string& comment) {
  return comment.size() >= 20 && comment.find(' ') != std::string::npos && comment.back() == '.';
}

const std::vector<std::string> kFolders = {"core", "tasks", "experiments", "tests"};

}  // namespace

TEST_CASE("includes point downwards only", "[house]") {
  for (const std::string& folder : kFolders)
    for (const std::string& path : sources(folder)) {
      INFO(path);
      CHECK(forbidden_includes(path, read(kRoot / path)) == std::vector<std::string>{});
    }
}

TEST_CASE("an include that points upwards is found", "[house]") {
  const std::string text = "// x.\n#include \"core/tape.h\"\n#include <vector>\n#include \"tasks/task.h\"\n";
  using Found = std::vector<std::string>;
  CHECK(forbidden_includes("core/nn/model.cpp", text) == Found{"tasks/task.h"});
  CHECK(forbidden_includes("core/cpu/rows.cpp", text) == Found{"core/tape.h", "tasks/task.h"});
  CHECK(forbidden_includes("tasks/copy.cpp", text) == Found{});
  CHECK(forbidden_includes("tasks/copy.cpp", "#include \"experiments/run.h\"") == Found{"experiments/run.h"});
  CHECK(forbidden_includes("core/tape.cpp", "#include \"tape.h\"") == Found{"tape.h"});  // full paths only
}

TEST_CASE("every file opens with a sentence that says what it is for", "[house]") {
  for (const std::string& folder : kFolders)
    for (const std::string& path : sources(folder)) {
      INFO(path);
      CHECK(is_sentence(opening_comment(read(kRoot / path))));
    }
  CHECK_FALSE(is_sentence(opening_comment("#pragma once\n// Too late for a comment.\n")));
  CHECK_FALSE(is_sentence(opening_comment("// rows\n\n#pragma once\n")));
}

TEST_CASE("what nvcc compiles includes no Eigen, fmt, yaml-cpp or HDF5", "[house]") {
  // Files of core/cuda that only the host's compiler sees may, and core/error.h brings fmt.
  static const std::regex kForeign("#include [<\"](Eigen|fmt|yaml-cpp|hdf5|H5|core/error\\.h)");
  int seen = 0;
  for (const std::string& path : sources("core/cuda")) {
    if (fs::path(path).extension() == ".cpp") continue;
    ++seen;
    INFO(path);
    CHECK_FALSE(std::regex_search(read(kRoot / path), kForeign));
  }
  CHECK(seen > 15);
  for (const char* path : {"core/kernels.h", "core/backend.h", "core/random.h"})
    CHECK_FALSE(std::regex_search(read(kRoot / path), kForeign));
  CHECK(std::regex_search("#include <fmt/format.h>", kForeign));
}

TEST_CASE("every op has a test with a gradient check", "[house]") {
  int ops = 0;
  for (const std::string& path : sources("core/ops")) {
    if (fs::path(path).extension() != ".h") continue;
    ++ops;
    const fs::path test = kRoot / "tests/core/ops" / ("test_" + fs::path(path).stem().string() + ".cpp");
    INFO(path << " wants " << test);
    CHECK(fs::exists(test));
    const std::string text = read(test);
    CHECK((text.find("check_op(") != std::string::npos || text.find("gradient_error(") != std::string::npos));
  }
  CHECK(ops >= 10);
}

TEST_CASE("nothing in the sources breaks reproducibility", "[house]") {
  const std::vector<std::pair<std::string, std::string>> patterns = {
      {"std::rand", "a global generator"},
      {"random_device", "a different seed in every run"},
      {"mt19937", "state that depends on the order of draws"},
      {"omp parallel.*reduction", "a sum whose order depends on the threads"},
      {"omp atomic", "a sum whose order depends on the threads"},
      {"ffast-math", "results that depend on the optimizer"},
      {"H5F_ACC_SWMR", "files that are unreadable after a kill"},
  };
  for (const char* folder : {"core", "tasks", "experiments"})
    for (const std::string& path : sources(folder)) {
      const std::string text = read(kRoot / path);
      for (const auto& [pattern, why] : patterns) {
        INFO(path << " has " << pattern << ": " << why);
        CHECK_FALSE(std::regex_search(text, std::regex(pattern)));
      }
    }
}
