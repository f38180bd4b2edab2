// Captures on a GPU: the stream is captured into a CUDA graph.
#include "core/cuda/capture.h"

#include "core/cuda/check.h"
#include "core/cuda/device.h"

namespace copylab::cuda {

struct Capture::State {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  bool capturing = true;
};

Capture::Capture() : state_(std::make_unique<State>()) {
  // Relaxed: an allocation in between is no part of the graph, and allowed.
  CUDA_CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed));
}

Capture::~Capture() {
  if (state_->capturing) cudaStreamEndCapture(stream(), &state_->graph);
  if (state_->ready) cudaGraphExecDestroy(state_->ready);
  if (state_->graph) cudaGraphDestroy(state_->graph);
  cudaGetLastError();  // clears what an abandoned capture left
}

void* Capture::last() const {
  cudaStreamCaptureStatus status;
  const cudaGraphNode_t* nodes = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  CUDA_CHECK(cudaStreamGetCaptureInfo(stream(), &status, nullptr, nullptr, &nodes, nullptr, &count));
#else
  CUDA_CHECK(cudaStreamGetCaptureInfo_v2(stream(), &status, nullptr, nullptr, &nodes, &count));
#endif
  if (status != cudaStreamCaptureStatusActive || count != 1) fail("cuda", "the capture of a step broke off");
  return nodes[0];
}

void Capture::finish() {
  state_->capturing = false;
  CUDA_CHECK(cudaStreamEndCapture(stream(), &state_->graph));
  CUDA_CHECK(cudaGraphInstantiate(&state_->ready, state_->graph, 0));
}

void Capture::update(void* which, const Launch& launch) {
  cudaKernelNodeParams node = {};
  node.func = const_cast<void*>(launch.kernel);
  node.gridDim = dim3(static_cast<unsigned>(launch.grid.blocks));
  node.blockDim = dim3(static_cast<unsigned>(launch.grid.threads));
  node.kernelParams = const_cast<void**>(launch.arguments);
  CUDA_CHECK(cudaGraphExecKernelNodeSetParams(state_->ready, static_cast<cudaGraphNode_t>(which), &node));
}

void Capture::run() {
  CUDA_CHECK(cudaGraphLaunch(state_->ready, stream()));
}

}  // namespace copylab::cuda
