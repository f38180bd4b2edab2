// Shape: the sizes of a row-major tensor of at most four dimensions.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace copylab {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    expect(sizes.size() <= kMaxRank, "shape", "at most {} dimensions: got {}", kMaxRank, sizes.size());
    for (int64_t size : sizes) {
      expect(size >= 0, "shape", "sizes must not be negative: got {}", size);
      sizes_[rank_++] = size;
    }
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return sizes_[i < 0 ? i + rank_ : i]; }  // -1 is the last one
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= sizes_[i];
    return n;
  }
  // All dimensions but the last, multiplied: the number of rows of the matrix that this shape is.
  int64_t rows() const { return rank_ == 0 ? 1 : (sizes_[rank_ - 1] == 0 ? 0 : size() / sizes_[rank_ - 1]); }

  // The same shape with another last dimension.
  Shape with_last(int64_t last) const {
    Shape s = *this;
    expect(rank_ > 0, "shape", "a scalar has no last dimension");
    s.sizes_[rank_ - 1] = last;
    return s;
  }

  // The same shape with one more dimension at the end.
  Shape append(int64_t last) const {
    expect(rank_ < kMaxRank, "shape", "at most {} dimensions: got {} and one more", kMaxRank, str());
    Shape s = *this;
    s.sizes_[s.rank_++] = last;
    return s;
  }

  std::string str() const {
    std::string out = "(";
    for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(sizes_[i]);
    return out + (rank_ == 1 ? ",)" : ")");
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.sizes_ == b.sizes_;
  }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  std::array<int64_t, kMaxRank> sizes_{};  // unused entries stay 0, so that == may compare all
  int rank_ = 0;
};

}  // namespace copylab
