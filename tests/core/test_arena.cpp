// Arena: alignment, growth, and a steady step that allocates nothing.
#include "core/arena.h"

#include <cstring>

#include "core/backend.h"
#include "tests/catch.h"

using namespace copylab;

namespace {

int allocations = 0, releases = 0;

// The CPU backend with its allocations counted.
const Backend& counting_backend() {
  static const Backend backend = [] {
    Backend b = cpu_backend();
    b.allocate = [](size_t bytes) {
      ++allocations;
      return cpu_backend().allocate(bytes);
    };
    b.release = [](void* data) {
      ++releases;
      cpu_backend().release(data);
    };
    return b;
  }();
  return backend;
}

}  // namespace

TEST_CASE("arena memory is aligned, writable and disjoint", "[arena]") {
  Arena arena(cpu_backend());
  std::vector<std::pair<unsigned char*, size_t>> pieces;
  for (size_t bytes : {1, 63, 64, 65, 1000, 3 << 20, 0, 7}) {
    auto* p = static_cast<unsigned char*>(arena.allocate(bytes));
    CHECK(reinterpret_cast<uintptr_t>(p) % Arena::kAlignment == 0);
    std::memset(p, static_cast<int>(pieces.size()), bytes);
    pieces.push_back({p, bytes});
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto [p, bytes] = pieces[i];
    CHECK(std::count(p, p + bytes, static_cast<unsigned char>(i)) == static_cast<int64_t>(bytes));
  }
}

TEST_CASE("an arena allocates nothing once it has seen a step", "[arena]") {
  allocations = releases = 0;
  {
    Arena arena(counting_backend());
    const auto step = [&] {
      for (int i = 0; i < 40; ++i) arena.allocate(300000);
      arena.reset();
    };
    step();
    const int after_first = allocations;
    CHECK(after_first > 1);  // the first step grew block by block, and reset joined the blocks
    for (int i = 0; i < 3; ++i) step();
    CHECK(allocations == after_first);
    arena.allocate(20000000);  // a larger step grows again
    CHECK(allocations == after_first + 1);
  }
  CHECK(allocations == releases);
}

TEST_CASE("an arena counts what is used, the peak, and its resets", "[arena]") {
  Arena arena(cpu_backend());
  arena.allocate(100);
  CHECK(arena.used() == 128);
  arena.allocate(1);
  CHECK(arena.used() == 192);
  const uint64_t generation = arena.generation();
  arena.reset();
  CHECK(arena.used() == 0);
  CHECK(arena.peak() == 192);
  CHECK(arena.generation() == generation + 1);
}
