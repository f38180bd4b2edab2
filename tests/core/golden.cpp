// Golden values: opens the files of tests/golden/.
#include "tests/core/golden.h"

namespace copylab::test {

h5::File open_golden(const std::string& name) {
  h5::File file = h5::File::open(std::string(COPYLAB_SOURCE_DIR) + "/tests/golden/" + name);
  expect(file.attribute_as<std::string>("/", "magic") == "copylab-golden" &&
             file.attribute_as<int64_t>("/", "version") == 1,
         "golden", "{}: a golden file of version 1 expected", name);
  return file;
}

}  // namespace copylab::test
