// CachingAllocator: keeps released blocks and hands them out again, since asking a GPU's driver for memory
// waits for all work to end. Released memory may be handed out while kernels still use it: all work is on one
// stream, so that what the next owner does comes later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>

namespace copylab::cuda {

class CachingAllocator {
 public:
  // `take` gives memory, or null when there is none left; `give_back` returns it.
  CachingAllocator(std::function<void*(size_t)> take, std::function<void(void*)> give_back)
      : take_(std::move(take)), give_back_(std::move(give_back)) {}

  // Null when there is no memory left, even after giving back all that is kept.
  void* allocate(size_t bytes) {
    const size_t size = size_class(bytes);
    void* data = nullptr;
    // The lowest address: which one comes depends on what is free, not on the order in which it was released,
    // so that steps that are alike get the same memory (recorder.h).
    std::set<void*>& kept = kept_[size];
    if (!kept.empty()) {
      data = *kept.begin();
      kept.erase(kept.begin());
    } else {
      data = take_(size);
      if (!data) {
        give_back_kept();
        data = take_(size);
      }
      if (!data) return nullptr;
      reserved_ += size;
    }
    sizes_[data] = size;
    active_ += size;
    peak_ = std::max(peak_, active_);
    return data;
  }
  // False if it was not allocated here.
  bool release(void* data) {
    const auto it = sizes_.find(data);
    if (it == sizes_.end()) return false;
    kept_[it->second].insert(data);
    active_ -= it->second;
    sizes_.erase(it);
    return true;
  }
  void give_back_kept() {
    for (auto& [size, kept] : kept_) {
      for (void* data : kept) {
        give_back_(data);
        reserved_ -= size;
      }
      kept.clear();
    }
  }

  size_t active() const { return active_; }      // bytes in use
  size_t peak() const { return peak_; }          // the most that ever were
  size_t reserved() const { return reserved_; }  // bytes in use or kept

  // Sizes are rounded up to eighths of powers of two, at least 512, so that steps of nearly equal shapes
  // share blocks.
  static size_t size_class(size_t bytes) {
    constexpr size_t kSmallest = 512;
    if (bytes <= kSmallest) return kSmallest;
    size_t step = kSmallest;
    while (16 * step <= bytes) step *= 2;
    return (bytes + step - 1) / step * step;
  }

 private:
  std::function<void*(size_t)> take_;
  std::function<void(void*)> give_back_;
  std::map<size_t, std::set<void*>> kept_;  // by size
  std::map<void*, size_t> sizes_;           // of what is in use
  size_t active_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace copylab::cuda
