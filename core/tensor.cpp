// Tensor: creation of arrays, and the checks that guard access to them.
#include "core/tensor.h"

#include "core/backend.h"

namespace copylab {

Tensor Tensor::in_arena(Arena& arena, DType dtype, Shape shape, bool requires_grad) {
  expect(!requires_grad || is_float(dtype), "tensor", "{} arrays have no gradient", name_of(dtype));
  Tensor t;
  t.shape_ = shape;
  t.storage_ = std::make_shared<Storage>();
  t.storage_->data = arena.allocate(size_of(dtype) * shape.size());
  t.storage_->dtype = dtype;
  t.storage_->requires_grad = requires_grad;
  t.storage_->size = shape.size();
  t.storage_->arena = &arena;
  t.storage_->generation = arena.generation();
  return t;
}

Tensor Tensor::view(void* data, DType dtype, Shape shape, void* grad, std::string name) {
  Tensor t;
  t.shape_ = shape;
  t.storage_ = std::make_shared<Storage>();
  t.storage_->data = data;
  t.storage_->grad = grad;
  t.storage_->dtype = dtype;
  t.storage_->requires_grad = grad != nullptr;
  t.storage_->size = shape.size();
  t.storage_->name = std::move(name);
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  expect(shape.size() == size(), "reshape", "equal sizes: got {} to {}", shape_.str(), shape.str());
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::detach() const {
  Tensor t;
  t.shape_ = shape_;
  t.storage_ = std::make_shared<Storage>(storage());
  t.storage_->grad = nullptr;
  t.storage_->requires_grad = false;
  return t;
}

void* Tensor::raw(DType dtype) const {
  const Storage& s = storage();
  expect(s.dtype == dtype, "tensor", "{} expected: got {} {}{}{}", name_of(dtype), name_of(s.dtype),
         shape_.str(), s.name.empty() ? "" : " ", s.name);
  expect(!s.arena || s.generation == s.arena->generation(), "tensor",
         "used after its step arena was reset: {}", shape_.str());
  return s.data;
}

void* Tensor::raw_grad(DType dtype) const {
  raw(dtype);
  Storage& s = storage();
  expect(s.requires_grad, "tensor", "no gradient was asked for: {}{}{}", shape_.str(),
         s.name.empty() ? "" : " ", s.name);
  if (!s.grad) {
    const size_t bytes = size_of(dtype) * s.size;
    s.grad = s.arena->allocate(bytes);
    s.arena->fill_zero(s.grad, bytes);
  }
  return s.grad;
}

}  // namespace copylab
