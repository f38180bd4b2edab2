// Fields of the section "run".
#include "experiments/config/run_fields.h"

#include <algorithm>

namespace copylab {

std::vector<Field> run_fields() {
  std::vector<Field> fields = {
      {.path = "run.experiment",
       .fallback = std::string("adhoc"),
       .doc = "folder of the run under the results",
       .semantic = false},
      {.path = "run.cell",
       .fallback = std::string("run"),
       .doc = "name of the run: arm, coordinates, seed",
       .semantic = false},
      {.path = "run.parent",
       .fallback = std::string(),
       .doc = "id of the run whose final weights this one starts from; empty: fresh weights"},
      {.path = "run.measures",
       .fallback = std::string(),
       .doc = "measures on the finished run, separated by commas",
       .semantic = false},
      {.path = "run.command",
       .fallback = std::string(),
       .doc = "command line that started the run",
       .semantic = false},
      {.path = "run.device",
       .fallback = std::string("cpu"),
       .doc = "where to train",
       .choices = {"cpu", "cuda"}},
      {.path = "run.precision",
       .fallback = std::string("f32"),
       .doc = "of matrix products on a GPU: f32, tf32, or bf16 operands with float32 sums and weights",
       .choices = {"f32", "tf32", "bf16"},
       .later = true},
  };
  return fields;
}

std::vector<std::string> measure_names(const std::string& list) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

}  // namespace copylab
