// rope: rotary position embedding (Su et al. 2021), half-split as in GPT-NeoX and Llama, with YaRN scaling.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/tape.h"

namespace copylab::ops {

// Context extension by YaRN (Peng et al. 2023) as in its reference code, whose ramp runs over the index of
// the frequency where the paper's runs over its wavelength.
struct Yarn {
  double scale = 1.0;            // new length / original length
  double original_length = 0.0;  // positions the frequencies were trained for
  double extrapolation_factor = 1.0;
  double attn_factor = 1.0;
  double beta_fast = 32.0;  // frequencies that turn more often than this within original_length stay
  double beta_slow = 1.0;   // frequencies that turn less often are divided by scale
};

// First and last index of the ramp between kept and divided frequencies, in units of head_dim's index.
std::pair<double, double> yarn_range(int64_t head_dim, double theta, const Yarn& yarn);
// Factor on cos and sin, of queries and of keys: 0.1 ln(scale) + 1 for scale > 1.
double yarn_mscale(double scale);
// Radians per position of each pair, (head_dim / 2): theta^(-2i/head_dim), or YaRN's mix of that with that
// divided by scale.
std::vector<double> rope_frequencies(int64_t head_dim, double theta, const std::optional<Yarn>& yarn = {});

// cos and sin of position · frequency, (positions, head_dim / 2) each, kept on the backend across steps.
class RopeTable {
 public:
  RopeTable(const Backend& backend, DType dtype, int64_t head_dim, double theta, int64_t positions,
            const std::optional<Yarn>& yarn = {});
  ~RopeTable();
  RopeTable(const RopeTable&) = delete;
  RopeTable& operator=(const RopeTable&) = delete;

  const Tensor& cos() const { return cos_; }
  const Tensor& sin() const { return sin_; }

 private:
  const Backend& backend_;
  Tensor cos_, sin_;
  void* data_ = nullptr;  // cos, then sin
};

// x (…, H, d), positions int32, one for each row of H heads, each below the table's -> shape of x:
// pair (x_i, x_{i+d/2}) of each head turned by position · frequency i.
Tensor rope(Tape& tape, const Tensor& x, const RopeTable& table, const Tensor& positions);

}  // namespace copylab::ops
