// Parameters: the flat buffers, and initial values that depend on nothing but (seed, name, index).
#include "core/nn/parameters.h"

#include "core/cpu/parallel.h"

namespace copylab::nn {

Parameters::~Parameters() {
  for (void* buffer : {data_, grad_})
    if (buffer) backend_.release(buffer);
}

const Tensor& Parameters::add(std::string name, Shape shape, Init init, bool decay) {
  expect(data_ == nullptr, "parameters", "{} was added after allocation", name);
  expect(places_.emplace(name, entries_.size()).second, "parameters", "{} was added twice", name);
  entries_.push_back({std::move(name), shape, init, decay, flat_size_, {}});
  const int64_t aligned = static_cast<int64_t>(Arena::kAlignment / size_of(dtype_));
  flat_size_ += (shape.size() + aligned - 1) / aligned * aligned;
  return entries_.back().tensor;
}

void Parameters::allocate() {
  if (data_) return;
  const size_t bytes = size_of(dtype_) * flat_size_;
  data_ = backend_.allocate(bytes);
  grad_ = backend_.allocate(bytes);
  backend_.fill_zero(data_, bytes);
  zero_grad();
  for (Entry& entry : entries_) {
    const size_t at = size_of(dtype_) * entry.offset;
    entry.tensor = Tensor::view(static_cast<std::byte*>(data_) + at, dtype_, entry.shape,
                                static_cast<std::byte*>(grad_) + at, entry.name);
  }
}

void Parameters::zero_grad() {
  backend_.fill_zero(grad_, size_of(dtype_) * flat_size_);
}

void Parameters::initialise(uint64_t seed) {
  allocate();
  for (const Entry& entry : entries_) {
    const Random random(seed, "init/" + entry.name);
    const auto value = [&](int64_t i) {
      switch (entry.init.kind) {
        case Init::Kind::normal:
          return entry.init.scale * random.normal(i);
        case Init::Kind::uniform:
          return entry.init.scale * (2.0 * random.uniform(i) - 1.0);
        case Init::Kind::constant:
          break;
      }
      return entry.init.scale;
    };
    dispatch_float(dtype_, "initialise", [&](auto tag) {
      using T = decltype(tag);
      std::vector<T> host(entry.shape.size());
      cpu::parallel_chunks(entry.shape.size(), 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) host[i] = static_cast<T>(value(i));
      });
      backend_.copy_in(entry.tensor.data<T>(), host.data(), sizeof(T) * host.size());
    });
  }
}

const Parameters::Entry& Parameters::find(const std::string& name) const {
  const auto place = places_.find(name);
  expect(place != places_.end(), "parameters", "no parameter is named {}", name);
  return entries_[place->second];
}

int64_t Parameters::count() const {
  int64_t n = 0;
  for (const Entry& entry : entries_) n += entry.shape.size();
  return n;
}

}  // namespace copylab::nn
