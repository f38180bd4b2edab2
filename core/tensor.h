// Tensor: a cheap handle on a contiguous row-major array and, where asked for, on its gradient.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/arena.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace copylab {

// Copies share the array. An activation lives in a step arena and must not be used after the arena's
// reset (checked); parameters and their gradients are views of the flat buffers of nn::Parameters.
class Tensor {
 public:
  Tensor() = default;

  // An array in `arena`, uninitialised. Its gradient, if it asks for one, is created at first use.
  static Tensor in_arena(Arena& arena, DType dtype, Shape shape, bool requires_grad = false);
  // A view of memory that somebody else owns and that outlives the tensor. With `grad` it asks for gradients.
  static Tensor view(void* data, DType dtype, Shape shape, void* grad = nullptr, std::string name = {});

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return shape_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t size() const { return shape_.size(); }
  DType dtype() const { return storage().dtype; }
  bool requires_grad() const { return storage_ && storage_->requires_grad; }
  const std::string& name() const { return storage().name; }  // dotted name of a parameter, else empty

  template <class T>
  T* data() const {
    return static_cast<T*>(raw(dtype_of<T>()));
  }
  // The gradient, same shape, zero-filled when first asked for. Backward kernels add to it.
  template <class T>
  T* grad() const {
    return static_cast<T*>(raw_grad(dtype_of<T>()));
  }
  // grad(), or null for a tensor that asks for none: what backward kernels take as "skip this input".
  template <class T>
  T* grad_or_null() const {
    return requires_grad() ? grad<T>() : nullptr;
  }
  // True once something may have been added to the gradient (always, for a parameter).
  bool has_grad() const { return storage().grad != nullptr; }

  // What the array was uploaded from, if that was kept, else null.
  const void* host_copy() const { return storage().host_copy.get(); }
  void keep_host_copy(std::shared_ptr<const std::byte[]> copy) { storage().host_copy = std::move(copy); }

  // Same array and gradient under another shape of equal size.
  Tensor reshape(Shape shape) const;
  // Same array, cut off from the tape: no gradient flows through it.
  Tensor detach() const;

 private:
  struct Storage {
    void* data = nullptr;
    void* grad = nullptr;
    DType dtype = DType::f32;
    bool requires_grad = false;
    int64_t size = 0;        // elements
    Arena* arena = nullptr;  // null: memory owned elsewhere
    uint64_t generation = 0;
    std::string name;
    std::shared_ptr<const std::byte[]> host_copy;
  };
  Storage& storage() const {
    expect(storage_ != nullptr, "tensor", "an undefined tensor was used");
    return *storage_;
  }
  void* raw(DType dtype) const;
  void* raw_grad(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  Shape shape_;
};

}  // namespace copylab
