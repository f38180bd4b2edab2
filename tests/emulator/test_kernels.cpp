// Every kernel of core/cuda, run by the emulator, against the CPU backend: the same numbers within rounding,
// and the same bits whatever the order of blocks and threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "experiments/check/op_cases.h"
#include "tests/catch.h"
#include "tests/emulator/emulator.h"

using namespace copylab;
using cuda::emulator::Mode;

namespace {

// The names of KernelTable's entries, from its source.
std::set<std::string> entries() {
  std::ifstream in(std::string(COPYLAB_SOURCE_DIR) + "/core/kernels.h");
  std::ostringstream text;
  text << in.rdbuf();
  std::set<std::string> names;
  const std::string source = text.str();
  static const std::regex kEntry("\\n  (?:void|bool|double) \\(\\*(\\w+)\\)\\(");
  for (std::sregex_iterator it(source.begin(), source.end(), kEntry), end; it != end; ++it)
    names.insert((*it)[1]);
  return names;
}

// The rows of the table in core/cuda/README.md: kernel, and what its other columns say.
std::map<std::string, std::vector<std::string>> state_table() {
  std::ifstream in(std::string(COPYLAB_SOURCE_DIR) + "/core/cuda/README.md");
  std::map<std::string, std::vector<std::string>> rows;
  static const std::regex kRow("\\| (\\w+) \\| (yes|no) \\| (yes|no) \\| (.+) \\|");
  std::smatch found;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, found, kRow)) rows[found[1]] = {found[2], found[3], found[4]};
  return rows;
}

// Sums in another order; products of the largest shapes have 400 terms.
template <class T>
constexpr double kTolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;

// Sets the precision of matrix products while it lives.
struct Precise {
  explicit Precise(cuda::Precision precision) { cuda::set_precision(precision); }
  ~Precise() { cuda::set_precision(cuda::Precision::f32); }
};

}  // namespace

TEST_CASE("every entry of KernelTable is emulated and has a case", "[emulator]") {
  const std::set<std::string> names = entries();
  CHECK(names.size() * sizeof(void*) == sizeof(KernelTable<float>));
  std::set<std::string> tested, raced;
  for (const OpCase& c : op_cases()) {
    tested.insert(c.entry);
    if (c.tiny) raced.insert(c.entry);
  }
  CHECK(tested == names);
  CHECK(raced == names);
  std::set<std::string> documented;
  for (const auto& [name, columns] : state_table()) {
    documented.insert(name);
    INFO("core/cuda/README.md: " << name);
    CHECK((columns[0] == "yes" && columns[1] == "yes" && !columns[2].empty()));
  }
  CHECK(documented == names);
  const auto check_table = [](const auto& table) {
    using Function = void (*)();
    for (size_t i = 0; i < sizeof(table) / sizeof(Function); ++i) {
      Function function;
      std::memcpy(&function, reinterpret_cast<const char*>(&table) + i * sizeof(Function), sizeof(Function));
      INFO("entry " << i << " of KernelTable");
      CHECK(function != nullptr);
    }
  };
  check_table(cuda::emulator::backend().f32);
  check_table(cuda::emulator::backend().f64);
}

TEMPLATE_TEST_CASE("emulated kernels agree with the CPU backend", "[emulator]", float, double) {
  using T = TestType;
  const cuda::emulator::DeviceAccess open;
  for (const OpCase& c : op_cases()) {
    const Arrays expected = c.template run<T>(cpu_backend());
    cuda::emulator::set_mode(Mode::forward);
    const Arrays forward = c.template run<T>(cuda::emulator::backend());
    const OpError error = op_error(forward, expected);
    INFO(c.entry << " " << c.variant << ": " << error.array);
    CHECK(error.error <= kTolerance<T>);
    if (sizeof(T) > sizeof(float)) continue;  // the order of threads is that of the same code
    cuda::emulator::set_mode(Mode::reversed);
    const Arrays reversed = c.template run<T>(cuda::emulator::backend());
    cuda::emulator::set_mode(Mode::forward);
    CHECK(op_error(reversed, forward).error == 0);
  }
}

// Inputs are bfloat16 numbers, so that what only multiplies them is as near as in float32. Where results of
// one product become operands of the next, each is rounded by 2^-9 of it. Other kernels multiply no matrices.
TEST_CASE("emulated kernels at bf16 agree with the CPU backend's float32", "[emulator]") {
  constexpr double kExact = kTolerance<float>, kRounded = 0x1p-7;
  const std::map<std::string, double> tolerances = {
      {"linear", kExact},         {"linear_backward", kExact},   {"lm_head", kExact},
      {"pointer", kExact},        {"attention", kRounded},       {"attention_backward", kRounded},
      {"lstm", kRounded},         {"lstm_backward", kRounded},   {"lm_head_backward", kRounded},
      {"project_rows", kRounded}, {"pointer_backward", kRounded}};
  const cuda::emulator::DeviceAccess open;
  const Precise bf16(cuda::Precision::bf16);
  for (const OpCase& c : op_cases()) {
    if (!tolerances.count(c.entry)) continue;
    const Arrays expected = c.run<float>(cpu_backend(), true);
    const Arrays forward = c.run<float>(cuda::emulator::backend(), true);
    const OpError error = op_error(forward, expected);
    INFO(c.entry << " " << c.variant << ": " << error.array);
    CHECK(error.error <= tolerances.at(c.entry));
    if (!c.entry.starts_with("attention")) continue;
    CHECK(op_error({{"lse", forward.at("lse")}}, {{"lse", expected.at("lse")}}).error <= kExact);
    cuda::emulator::set_mode(Mode::reversed);
    const Arrays reversed = c.run<float>(cuda::emulator::backend(), true);
    cuda::emulator::set_mode(Mode::forward);
    CHECK(op_error(reversed, forward).error == 0);
  }
}

// Each row's query is the code of one key it sees, far from all other codes: its probability is 1, all others
// are 0, and small integers come out exactly.
TEST_CASE("attention at bf16 moves rows exactly where each attends to one key", "[emulator]") {
  struct Shape {
    int64_t length, heads, kv_heads, dim, window;
  };
  const Precise bf16(cuda::Precision::bf16);
  for (const Shape& s :
       {Shape{200, 4, 2, 64, 0}, {190, 2, 2, 128, 70}, {67, 3, 1, 32, 0}, {130, 1, 1, 48, 65}}) {
    INFO("T=" << s.length << " d=" << s.dim);
    const int64_t T = s.length, H = s.heads, G = s.kv_heads, d = s.dim;
    const Random random(21, "codes");
    std::vector<float> q(T * H * d), k(T * G * d), v(k.size()), dout(q.size()), out(q.size()),
        dv(v.size(), 0);
    for (size_t i = 0; i < k.size(); ++i) {
      k[i] = random.below(2 * i, 2) ? 8 : -8;
      v[i] = static_cast<float>(random.below(2 * i + 1, 200)) - 100;
    }
    for (int64_t t = 0; t < T; ++t)
      for (int64_t h = 0; h < H; ++h) {
        const int64_t seen = s.window > 0 ? std::min(s.window, t + 1) : t + 1;
        const int64_t key = t - static_cast<int64_t>(random.below(1000000 + t * H + h, seen));
        for (int64_t c = 0; c < d; ++c) {
          const int64_t at = (t * H + h) * d + c, from = (key * G + h / (H / G)) * d + c;
          q[at] = k[from];
          dout[at] = static_cast<float>(random.below(2000000 + at, 20)) - 10;
          out[at] = v[from];
          dv[from] += dout[at];
        }
      }
    OpBench<float> bench(cuda::emulator::backend());
    AttentionArgs<float> a{};
    a.batch = 1;
    a.length = T;
    a.heads = H;
    a.kv_heads = G;
    a.head_dim = d;
    a.window = s.window;
    a.scale = 1;
    a.q = bench.place("q", q);
    a.k = bench.place("k", k);
    a.v = bench.place("v", v);
    a.out = bench.numbers("out", q.size());
    a.lse = bench.numbers("lse", T * H);
    const AttentionGrads<float> g{bench.place("dout", dout), bench.place("dq", std::vector<float>(q.size())),
                                  bench.place("dk", std::vector<float>(k.size())),
                                  bench.place("dv", std::vector<float>(v.size()))};
    bench.kernels().attention(a);
    bench.kernels().attention_backward(a, g);
    const Arrays got = bench.contents();
    const auto wide = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
    CHECK(got.at("out") == wide(out));
    CHECK(got.at("lse") == std::vector<double>(T * H, 64 * d));
    CHECK(got.at("dv") == wide(dv));
    CHECK(got.at("dq") == std::vector<double>(q.size(), 0));
    CHECK(got.at("dk") == std::vector<double>(k.size(), 0));
  }
}

// A tile that is visited takes up what is NaN in it, even where nothing is seen.
TEST_CASE("attention at bf16 does not visit tiles that documents or the window hide", "[emulator]") {
  constexpr int64_t kLength = 256, kDim = 16;
  const Precise bf16(cuda::Precision::bf16);
  for (const bool documents : {false, true}) {
    OpBench<float> bench(cuda::emulator::backend());
    std::vector<float> v(kLength * kDim, 1), dout(v.size(), 1);
    std::fill_n(v.begin(), 128 * kDim, NAN);
    std::fill_n(dout.end() - 64 * kDim, 64 * kDim, NAN);
    std::vector<int32_t> document(kLength, 0);
    std::fill_n(document.begin(), 128, 1);
    AttentionArgs<float> a{};
    a.batch = a.heads = a.kv_heads = 1;
    a.length = kLength;
    a.head_dim = kDim;
    a.scale = 0.25f;
    a.window = documents ? 0 : 64;
    a.segment = documents ? bench.place("documents", document) : nullptr;
    a.q = bench.numbers("q", v.size());
    a.k = bench.numbers("k", v.size());
    a.v = bench.place("v", v);
    a.out = bench.numbers("out", v.size());
    a.lse = bench.numbers("lse", kLength);
    bench.kernels().attention(a);
    bench.kernels().attention_backward(a, {bench.place("dout", dout), bench.numbers("dq", v.size()), nullptr,
                                           bench.numbers("dv", v.size())});
    const Arrays got = bench.contents();
    const auto finite = [&](const char* name, int64_t begin, int64_t end) {
      return std::all_of(got.at(name).begin() + begin * kDim, got.at(name).begin() + end * kDim,
                         [](double x) { return std::isfinite(x); });
    };
    INFO("documents: " << documents);
    CHECK(finite("out", 192, kLength));
    CHECK_FALSE(finite("out", 0, 128));
    CHECK(finite("dv", 0, 128));
    CHECK_FALSE(finite("dv", 192, kLength));
  }
}

TEST_CASE("what op_error must find: an overwritten gradient, a NaN, another integer", "[emulator]") {
  const Arrays exact = {{"a", {1, 2, 3}}, {"i", {4}}};
  CHECK(op_error(exact, exact).error == 0);
  CHECK(op_error({{"a", {1, 2, 3.3}}, {"i", {4}}}, exact).error == Approx(0.1));
  CHECK(op_error({{"a", {1, NAN, 3}}, {"i", {4}}}, exact).error > 1e300);
  CHECK(op_error({{"a", {1, 2, 3}}, {"i", {5}}}, exact).array == "i");
}

TEST_CASE("an index outside its table is an error when the host next reads", "[emulator]") {
  const Backend& backend = cuda::emulator::backend();
  OpBench<float> b(backend);
  const float* table = b.numbers("table", 5 * 3);
  float* y = b.numbers("y", 4 * 3);
  const int32_t* good = b.place("good", std::vector<int32_t>{0, 4, 2, 2});
  const int32_t* bad = b.place("bad", std::vector<int32_t>{0, 5, -7, 2});
  float host[12];
  b.kernels().embedding(table, good, y, 4, 3, 5);
  backend.copy_out(host, y, sizeof(host));
  b.kernels().embedding(table, bad, y, 4, 3, 5);
  CHECK_THROWS_WITH(backend.copy_out(host, y, sizeof(host)),
                    "[embedding] an index outside the table: got 5 at 1");
  backend.copy_out(host, y, sizeof(host));  // once told, the error is over
  b.kernels().gather_rows(table, bad, y, 4, 3, 5, false);
  CHECK_THROWS_WITH(backend.copy_out(host, y, sizeof(host)),
                    "[gather_rows] an index outside the table: got 5 at 1");
  b.kernels().scatter_rows_add(y, bad, b.numbers("to", 15), 4, 3, 5);
  CHECK_THROWS_WITH(backend.copy_out(host, y, sizeof(host)),
                    "[scatter_rows] an index outside the table: got 5 at 1");
  b.kernels().embedding_backward(bad, y, b.numbers("to2", 15), 4, 3, 5);
  CHECK_THROWS_WITH(backend.copy_out(host, y, sizeof(host)),
                    "[embedding] an index outside the table: got 5 at 1");
  b.kernels().rope(table, table, table, bad, y, 3, 2, 2, 5, 1, false);
  CHECK_THROWS_WITH(backend.copy_out(host, y, sizeof(host)), "[rope] an index outside the table: got 5 at 1");
}
