// The CUDA backend: is there a GPU that this build has code for, and the table of its kernels.
#include "core/backend.h"

#include "core/cuda/architectures.h"
#include "core/cuda/check.h"
#include "core/cuda/gpu.h"
#include "core/cuda/kernels/index.h"
#include "core/cuda/machine.h"

namespace copylab {
namespace cuda {

std::string blas_version();  // blas.cu

template <class T>
KernelTable<T> kernel_table();
extern template KernelTable<float> kernel_table<float>();
extern template KernelTable<double> kernel_table<double>();

namespace {

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// What the driver is made for, as CUDA numbers its versions; 0 without a driver.
int driver_version() {
  int driver = 0;
  return cudaDriverGetVersion(&driver) == cudaSuccess ? driver : 0;
}

// "" if there is a GPU to run on, else one line that says what was found.
std::string missing() {
  const int driver = driver_version();
  if (driver == 0) return "no NVIDIA driver was found";
  const std::string driver_name = "the NVIDIA driver (for CUDA " + version(driver) + ")";
  int devices = 0;
  cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaErrorInsufficientDriver)
    return driver_name + " is too old for this build, which needs CUDA " + version(CUDART_VERSION);
  if (error == cudaErrorNoDevice || (error == cudaSuccess && devices == 0))
    return driver_name + " sees no GPU";
  cudaDeviceProp found;
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&found, 0);
  if (error != cudaSuccess) return driver_name + " says: " + cudaGetErrorString(error);
  if (runs_on(COPYLAB_CUDA_ARCHITECTURES, found.major, found.minor)) return "";
  return std::string(found.name) + " (compute capability " + std::to_string(found.major) + "." +
         std::to_string(found.minor) + ") cannot run this build, which is for " COPYLAB_CUDA_ARCHITECTURES;
}

}  // namespace
}  // namespace cuda

const Backend* cuda_backend(const char** why) {
  static const std::string missing = cuda::missing();
  *why = missing.c_str();
  if (!missing.empty()) return nullptr;
  static const Backend backend{"cuda",
                               cuda::allocate,
                               cuda::release,
                               cuda::fill_zero,
                               cuda::copy_to_device,
                               cuda::read,
                               cuda::kernel_table<float>(),
                               cuda::kernel_table<double>(),
                               cuda::step_graph};
  return &backend;
}

std::vector<std::pair<std::string, std::string>> gpu_facts() {
  const int driver = cuda::driver_version();
  std::vector<std::pair<std::string, std::string>> facts = {
      {"cuda toolkit", cuda::version(CUDART_VERSION)},
      {"cuda architectures", COPYLAB_CUDA_ARCHITECTURES},
      {"cublas", cuda::blas_version()},
      {"nvidia driver", driver > 0 ? "for CUDA " + cuda::version(driver) : "none"}};
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  if (devices == 0) facts.push_back({"gpu", "none"});
  for (int i = 0; i < devices; ++i) {
    cudaDeviceProp found;
    if (cudaGetDeviceProperties(&found, i) != cudaSuccess) continue;
    facts.push_back({"gpu", std::string(found.name) + ", compute capability " + std::to_string(found.major) +
                                "." + std::to_string(found.minor) + ", " +
                                std::to_string(found.totalGlobalMem >> 30) + " GiB"});
  }
  return facts;
}

void set_gpu_precision(const std::string& name) {
  using cuda::Precision;
  cuda::set_precision(name == "bf16" ? Precision::bf16 : name == "tf32" ? Precision::tf32 : Precision::f32);
}

}  // namespace copylab
