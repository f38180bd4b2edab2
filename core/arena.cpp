// Arena: bump allocation out of blocks that grow until one block holds a whole step.
#include "core/arena.h"

#include <algorithm>

#include "core/backend.h"

namespace copylab {

Arena::~Arena() {
  for (const Block& block : blocks_) backend_.release(block.data);
}

void* Arena::allocate(size_t bytes) {
  const size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks_.empty() || offset_ + size > blocks_.back().size) {
    constexpr size_t kSmallestBlock = size_t{1} << 20;
    const size_t block = std::max(size, blocks_.empty() ? kSmallestBlock : blocks_.back().size / 2);
    blocks_.push_back({static_cast<std::byte*>(backend_.allocate(block)), block});
    offset_ = 0;
  }
  void* out = blocks_.back().data + offset_;
  offset_ += size;
  used_ += size;
  peak_ = std::max(peak_, used_);
  return out;
}

void Arena::fill_zero(void* data, size_t bytes) {
  backend_.fill_zero(data, bytes);
}

void Arena::reset() {
  if (blocks_.size() > 1) {
    for (const Block& block : blocks_) backend_.release(block.data);
    blocks_.clear();
    blocks_.push_back({static_cast<std::byte*>(backend_.allocate(peak_)), peak_});
  }
  offset_ = 0;
  used_ = 0;
  ++generation_;
}

}  // namespace copylab
