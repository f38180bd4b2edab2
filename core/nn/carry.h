// Carry: what a model remembers of each lane of a stream from one batch to the next. Gradients stop there.
#pragma once

#include <cstdint>
#include <vector>

namespace copylab::nn {

// On the host, so that a checkpoint can hold it; float32 numbers are exact in double.
struct Carry {
  int64_t rows = 0;             // B lanes; 0: nothing yet, every lane starts from zero
  int64_t layers = 0;           // L with a recurrent state
  int64_t dim = 0;              // D
  int64_t memory = 0;           // M positions that the head points back at (Head::memory)
  std::vector<double> h, c;     // (L, B, D) hidden and cell state after the last position
  std::vector<double> states;   // (B, M, D) final hidden states of the last M positions, oldest first
  std::vector<int32_t> tokens;  // (B, M) what was read at those positions; -1: before the stream's start

  bool empty() const { return rows == 0; }
  void clear() { *this = {}; }
  bool operator==(const Carry&) const = default;
};

}  // namespace copylab::nn
