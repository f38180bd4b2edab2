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

// The functions of the library; those with _64 take sizes of 64 bits.
struct Library {
  decltype(&cublasGetProperty) property;
  decltype(&cublasCreate_v2) create;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGemmStridedBatchedEx_64) gemm;

  Library() {
    const std::string file = "libcublas.so." + std::to_string(CUDART_VERSION / 1000);
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      library = dlopen((std::string(COPYLAB_CUDA_LIBRARIES "/") + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fail("cuda", std::string("cannot load cuBLAS: ") + dlerror());
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (!function) fail("cuda", file + " lacks " + name);
    };
    find("cublasGetProperty", property);
    find("cublasCreate_v2", create);
    find("cublasSetStream_v2", set_stream);
    find("cublasSetWorkspace_v2", set_workspace);
    find("cublasGemmStridedBatchedEx_64", gemm);
  }
};

const Library& library() {
  static const Library instance;
  return instance;
}

class Cublas {
 public:
  Cublas() {
    CUBLAS_CHECK(library().create, &handle_);
    CUBLAS_CHECK(library().set_stream, handle_, stream());
    CUBLAS_CHECK(library().set_workspace, handle_, allocate(kWorkspaceBytes), kWorkspaceBytes);
  }

  // Row-major c = a·b is column-major cᵀ = bᵀ·aᵀ, and storage read as column-major is the transpose already.
  template <class In, class Out, class Number>
  void multiply(const Product<In, Out>& p, cudaDataType in, cudaDataType out, cublasComputeType_t compute,
                Number one) const {
    const auto matrix = [](const Matrix<In>& x) { return x.row << 1 | x.transposed; };
    if (!wanted("multiply",
                {p.m, p.n, p.k, p.batch, p.add, key_of(p.a.data), matrix(p.a), p.a.stride, key_of(p.b.data),
                 matrix(p.b), p.b.stride, key_of(p.c), p.c_row, p.c_stride, in, compute}))
      return;
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const Number beta = p.add ? one : Number(0);
    CUBLAS_CHECK(library().gemm, handle_, operation(p.b.transposed), operation(p.a.transposed), p.n, p.m, p.k,
                 &one, p.b.data, in, p.b.row, p.b.stride, p.a.data, in, p.a.row, p.a.stride, &beta, p.c, out,
                 p.c_row, p.c_stride, p.batch, compute, CUBLAS_GEMM_DEFAULT);
  }

 private:
  // Lives as long as the process: the driver may be gone before destructors of static objects run.
  cublasHandle_t handle_ = nullptr;
};

const Cublas& cublas() {
  static const Cublas* const instance = new Cublas;
  return *instance;
}

}  // namespace

std::string blas_version() {
  try {
    int parts[3] = {};
    for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL})
      CUBLAS_CHECK(library().property, part, &parts[part]);
    return std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." + std::to_string(parts[2]);
  } catch (const std::exception& error) {
    return error.what();
  }
}

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
