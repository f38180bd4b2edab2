// Arena: bump allocation for everything that lives for one training step, and is then dropped at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace copylab {

struct Backend;

class Arena {
 public:
  static constexpr size_t kAlignment = 64;

  explicit Arena(const Backend& backend) : backend_(backend) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Uninitialised memory, 64-byte aligned, valid until reset().
  void* allocate(size_t bytes);

  void fill_zero(void* data, size_t bytes);

  // Drops everything. Blocks are merged into one, so that a steady step allocates nothing.
  void reset();

  size_t used() const { return used_; }
  size_t peak() const { return peak_; }
  uint64_t generation() const { return generation_; }  // counts resets: a tensor of an older one is stale

 private:
  struct Block {
    std::byte* data;
    size_t size;
  };
  const Backend& backend_;
  std::vector<Block> blocks_;
  size_t offset_ = 0;  // within blocks_.back()
  size_t used_ = 0;
  size_t peak_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace copylab
