// The emulator: runs device code (core/cuda/device.h) on the host, so that every kernel can be tested without
// a GPU.
//
// The threads of a block are fibers: contexts on one host thread, which change at barriers and exchanges.
// Fast and deterministic; `reversed` runs blocks and threads from the last to the first, so that code which
// relies on an order, or lacks a barrier, gives other numbers. Shared memory starts as NaN. Under
// ThreadSanitizer each fiber counts as a thread that only barriers put in an order with others: it finds
// races whether or not they show.
#pragma once

#include <functional>

#include "core/backend.h"
#include "core/cuda/machine.h"

namespace copylab::cuda::emulator {

enum class Mode { forward, reversed };
Mode mode();
void set_mode(Mode mode);

// Runs a grid.
void run(const Launch& launch);
// Does it, or keeps it where a Capture is being filled.
void perform(std::function<void()> command);

// The kernels of core/cuda/kernels on the host. Its memory can be read and written by kernels and by copies
// alone: other host code that touches it stops the program, as it would not work on a GPU either.
const Backend& backend();

// Opens the memory of the emulated device while it lives. Opening and closing costs time, which a test of
// many small kernels saves by keeping it open.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace copylab::cuda::emulator
