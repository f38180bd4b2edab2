#!/usr/bin/env bash
# Verifies the CUDA backend on a machine with a GPU, in one command:
#
#   tests/bench/verify_gpu.sh [DIR]     # DIR for the build and the logs; default build/gpu
#
# Needs nvcc, a driver, and a Python with a CUDA build of PyTorch for the comparison (COPYLAB_TORCH=/path/to/python).
# Each part goes on when another fails; the last lines say which did. What it prints belongs into the tables of
# core/cuda/README.md and tests/bench/README.md.
set -uo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/../.."

out=$(realpath -m "${1:-build/gpu}")
torch=${COPYLAB_TORCH:-python3}
mkdir -p "$out"
failed=()

part() {  # part NAME COMMAND ...: runs it, keeps its output in a log, remembers a failure
  local name=$1 start=$SECONDS
  shift
  echo "=== $name: $*"
  "$@" 2>&1 | tee "$out/$name.log" || failed+=("$name")
  echo "=== $name: $((SECONDS - start)) s"
}

# Only the architecture that is here: the others cost minutes.
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ') ||
  { echo "verify_gpu: nvidia-smi found no GPU" >&2; exit 2; }
build() {
  cmake -S . -B "$out/build" -DCMAKE_BUILD_TYPE=Release -DCOPYLAB_CUDA=ON -DCOPYLAB_CUDA_ARCHITECTURES="$capability" \
    -DCOPYLAB_BENCH=ON &&
    cmake --build "$out/build" --parallel --target copylab_bin copylab_tests copylab_step_time
}
part build build
copylab=$out/build/copylab tests=$out/build/tests/copylab_tests

part doctor "$copylab" doctor
part kernels "$copylab" check backends
part golden env COPYLAB_TEST_BACKEND=cuda "$tests" "[golden]"
part tests "$tests"

# Every kernel, float32 and float64, models with every head, and some updates of training, with step graphs and without.
for tool in memcheck racecheck synccheck; do
  part "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "$copylab" check backends
done

part compare "$torch" tests/bench/compare_torch.py --device cuda --step-time "$out/build/tests/copylab_step_time"
part paper "$copylab" run spamlang --preset paper --device cuda --no-figures --out "$out/results"

echo "driver and GPU: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)"
((${#failed[@]} == 0)) && { echo "all parts passed"; exit 0; }
printf 'failed: %s\n' "${failed[@]}"
exit 1
