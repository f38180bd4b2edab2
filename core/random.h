// Philox-4x32-10: counter-based random numbers, keyed by (seed, purpose, step, index). There is no generator
// state anywhere: the same key and index give the same number on every machine and in every order.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace copylab {

// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"; the standard constants and 10 rounds.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// FNV-1a, for turning the name of a purpose into key bits.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return h;
}

// A stream of numbers for one purpose at one step. Draws are addressed by index, so they are independent of
// the order in which they are asked for. Different purposes and seeds never share numbers.
class Random {
 public:
  Random(uint64_t seed, std::string_view purpose, uint64_t step = 0)
      : key_(mix(seed, hash_name(purpose))), step_(step) {}
  // The stream that key() and step() describe: how a kernel gets hold of one.
  static Random from_key(uint64_t key, uint64_t step) {
    Random random(0, "", step);
    random.key_ = key;
    return random;
  }

  std::array<uint32_t, 4> block(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                       static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32)},
                      {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }
  uint64_t bits(uint64_t index) const {
    const auto r = block(index);
    return uint64_t{r[1]} << 32 | r[0];
  }
  double uniform(uint64_t index) const {
    return static_cast<double>(bits(index) >> 11) * 0x1.0p-53;
  }  // [0, 1)
  // Uniform on 0..n-1 by the high word of a 64 x 64 product: bias below n/2^64.
  uint64_t below(uint64_t index, uint64_t n) const {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bits(index)) * n) >> 64);
  }
  double normal(uint64_t index) const;  // standard normal (Box-Muller)

  uint64_t key() const { return key_; }
  uint64_t step() const { return step_; }

 private:
  static constexpr uint64_t mix(uint64_t a, uint64_t b) {  // splitmix64's finaliser over both words
    uint64_t z = a * 0x9E3779B97F4A7C15ull ^ (b + 0x632BE59BD9B4E019ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t key_;
  uint64_t step_;
};

}  // namespace copylab
