// Matrix products by cuBLAS, which is loaded when the first one is asked for: the program starts without it.
#include <cublas_v2.h>
#include <dlfcn.h>

#include "core/cuda/check.h"
#include "core/cuda/device.h"
#include "core/cuda/machine.h"

namespace copylab::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // fixed, so that results are the same from run to run

#define CUBLAS_CHECK(function, ...)                                                                \
  do {                                                                                             \
    const cublasStatus_t status = function(__VA_ARGS__);                                           \
    if (status != CUBLAS_STATUS_SUCCESS)                                                           \
      fail("cuda", std::string(#function "(" #__VA_ARGS__ "): status ") + std::to_string(status)); \
  } while (false)

class Cublas {
 public:
  Cublas() {
    const std::string file = "libcublas.so." + std::to_string(CUDART_VERSION / 1000);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      library = dlopen((std::string(COPYLAB_CUDA_LIBRARIES "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("cuda", std::string("cannot load cuBLAS: ") + dlerror());
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (!function) fail("cuda", std::string(file) + " lacks " + name);
    };
    decltype(&cublasCreate_v2) create;
    decltype(&cublasSetStream_v2) set_stream;
    decltype(&cublasSetWorkspace_v2) set_workspace;
    find("cublasCreate_v2", create);
    find("cublasSetStream_v2", set_stream);
    find("cublasSetWorkspace_v2", set_workspace);
    find("cublasGemmStridedBatchedEx", gemm_);
    CUBLAS_CHECK(create, &handle_);
    CUBLAS_CHECK(set_stream, handle_, stream());
    CUBLAS_CHECK(set_workspace, handle_, allocate(kWorkspaceBytes), kWorkspaceBytes);
  }

  // Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ, and storage read as column-major is the transpose already.
  template <class In, class Out, class Number>
  void multiply(const Product<In, Out>& p, cudaDataType in, cudaDataType out, cublasComputeType_t compute,
                Number one) const {
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const Number beta = p.add ? one : Number(0);
    CUBLAS_CHECK(gemm_, handle_, operation(p.b.transposed), operation(p.a.transposed), static_cast<int>(p.n),
                 static_cast<int>(p.m), static_cast<int>(p.k), &one, p.b.data, in, static_cast<int>(p.b.row),
                 p.b.stride, p.a.data, in, static_cast<int>(p.a.row), p.a.stride, &beta, p.c, out,
                 static_cast<int>(p.c_row), p.c_stride, static_cast<int>(p.batch), compute,
                 CUBLAS_GEMM_DEFAULT);
  }

 private:
  // Lives as long as the process: the driver may be gone before destructors of static objects run.
  cublasHandle_t handle_ = nullptr;
  decltype(&cublasGemmStridedBatchedEx) gemm_ = nullptr;
};

const Cublas& cublas() {
  static const Cublas* const instance = new Cublas;
  return *instance;
}

}  // namespace

void blas(const Product<float>& p) {
  const cublasComputeType_t compute =
      precision() == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublas().multiply(p, CUDA_R_32F, CUDA_R_32F, compute, 1.0f);
}
void blas(const Product<double>& p) {
  cublas().multiply(p, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 1.0);
}
void blas(const Product<Bf16, float>& p) {
  cublas().multiply(p, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1.0f);
}

}  // namespace copylab::cuda
