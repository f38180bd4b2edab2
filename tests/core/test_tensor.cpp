// Tensor: shared arrays, gradients on demand, and the guards around them.
#include "core/tensor.h"

#include "tests/core/gradcheck.h"

using namespace copylab;
using copylab::test::error_of;

TEST_CASE("views share the memory of their owner", "[tensor]") {
  float data[6] = {1, 2, 3, 4, 5, 6}, grad[6] = {};
  const Tensor t = Tensor::view(data, DType::f32, {2, 3}, grad, "w");
  CHECK(t.data<float>() == data);
  CHECK(t.grad<float>() == grad);
  CHECK(t.requires_grad());
  CHECK(t.has_grad());
  CHECK(t.name() == "w");
  CHECK(t.dim(-1) == 3);
  const Tensor plain = Tensor::view(data, DType::f32, {2, 3});
  CHECK_FALSE(plain.requires_grad());
  CHECK(plain.grad_or_null<float>() == nullptr);
}

TEST_CASE("a gradient comes zero-filled, at first use", "[tensor]") {
  Arena arena(cpu_backend());
  std::memset(arena.allocate(1 << 16), 0xff, 1 << 16);
  arena.reset();
  const Tensor t = Tensor::in_arena(arena, DType::f64, {5}, true);
  CHECK_FALSE(t.has_grad());
  const size_t before = arena.used();
  for (int i = 0; i < 5; ++i) CHECK(t.grad<double>()[i] == 0);
  CHECK(t.has_grad());
  CHECK(arena.used() > before);
  t.grad<double>()[0] = 3;
  CHECK(Tensor(t).grad<double>()[0] == 3);  // copies share it
}

TEST_CASE("reshape keeps array and gradient", "[tensor]") {
  Arena arena(cpu_backend());
  const Tensor t = Tensor::in_arena(arena, DType::f32, {2, 6}, true), r = t.reshape({3, 4});
  CHECK(r.shape() == Shape{3, 4});
  CHECK(r.data<float>() == t.data<float>());
  CHECK(r.grad<float>() == t.grad<float>());
}

TEST_CASE("detach keeps the array and drops the gradient", "[tensor]") {
  float data[2] = {1, 2}, grad[2] = {};
  const Tensor t = Tensor::view(data, DType::f32, {2}, grad), d = t.detach();
  CHECK(d.data<float>() == data);
  CHECK_FALSE(d.requires_grad());
  CHECK(t.requires_grad());
}

TEST_CASE("a tensor of a step that is over is refused", "[tensor]") {
  Arena arena(cpu_backend());
  const Tensor t = Tensor::in_arena(arena, DType::f32, {2, 3}, true), d = t.detach();
  arena.reset();
  CHECK(error_of([&] { t.data<float>(); }) == "[tensor] used after its step arena was reset: (2, 3)");
  CHECK(error_of([&] { t.grad<float>(); }) == "[tensor] used after its step arena was reset: (2, 3)");
  CHECK(error_of([&] { d.data<float>(); }) == "[tensor] used after its step arena was reset: (2, 3)");
}

TEST_CASE("tensors name what is wrong", "[tensor][errors]") {
  Arena arena(cpu_backend());
  const Tensor t = Tensor::in_arena(arena, DType::f32, {2, 3});
  CHECK(error_of([&] { t.data<double>(); }) == "[tensor] float64 expected: got float32 (2, 3)");
  CHECK(error_of([&] { t.grad<float>(); }) == "[tensor] no gradient was asked for: (2, 3)");
  CHECK(error_of([&] { t.reshape({5}); }) == "[reshape] equal sizes: got (2, 3) to (5,)");
  CHECK(error_of([&] { Tensor().data<float>(); }) == "[tensor] an undefined tensor was used");
  CHECK(error_of([&] { Tensor::in_arena(arena, DType::i32, {1}, true); }) ==
        "[tensor] int32 arrays have no gradient");
  float data = 0;
  const Tensor named = Tensor::view(&data, DType::f32, {1}, nullptr, "norm.weight");
  CHECK(error_of([&] { named.data<double>(); }) == "[tensor] float64 expected: got float32 (1,) norm.weight");
}
