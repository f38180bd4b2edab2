#!/usr/bin/python3
"""Compares the time and memory of copylab's training steps with PyTorch on the same machine.

    compare_torch.py [--quick] [--step-time PATH] [--blas DIR] [--shape NAME ...] [--clock wall|cpu]
    compare_torch.py --device cuda [--step-time PATH] [--shape NAME ...]    # eager and compiled PyTorch on a GPU

Both sides train the same model on batches of the same shape: AdamW, gradient clipping at 1, float32, the same number
of threads. Each side is a process that waits for its turn; they alternate A B A B, so that a busy machine hurts both.
A ratio is (PyTorch ms) / (copylab ms) of neighbouring turns; the table gives its minimum, median and maximum.
`--clock cpu` counts the process's CPU time instead of wall time: for a machine that others use, best with
`--threads 1`, since threads that wait for each other also use the CPU.

Debian's PyTorch multiplies matrices with whatever libblas.so.3 the system has. Where that is the reference BLAS, a
comparison flatters copylab by an order of magnitude: give the folder of an optimised one with --blas.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass(frozen=True)
class Shape:
    vocab: int
    batch: int
    length: int
    dim: int = 64
    layers: int = 4
    heads: int = 4
    ffn: int = 192
    tied: bool = True
    head: str = "vanilla"
    kind: str = "transformer"  # or lstm, with its states carried from step to step
    target: float = 0.0  # the ratio to reach
    precision: str = "f32"  # of matrix products on a GPU: f32, or bf16 with float32 sums and weights

    @property
    def rows(self):
        return self.batch * self.length


SHAPES = {
    "spamlang-16k": Shape(16384, 8, 64, target=5),
    "spamlang-16k-untied": Shape(16384, 8, 64, tied=False, target=5),
    "spamlang-131k": Shape(131072, 8, 64, target=5),
    "spamlang-131k-untied": Shape(131072, 8, 64, tied=False, target=5),
    "nano-256": Shape(256, 16, 128, target=4),
    "micro-256": Shape(256, 8, 256, dim=128, layers=6, ffn=384, target=3),
    "nano-8k": Shape(8192, 16, 128, target=4),
    "lstm-33k": Shape(33278, 20, 64, dim=256, layers=2, kind="lstm", target=3),
    "lstm-256": Shape(256, 20, 64, dim=256, layers=2, kind="lstm", target=3),
}
QUICK = ("spamlang-16k", "nano-256")
# On a GPU, against eager and compiled PyTorch; the targets are for the compiled one.
GPU_SHAPES = {
    "spamlang-16k": Shape(16384, 8, 64, target=1.5),
    "micro-text": Shape(4096, 8, 256, dim=128, layers=6, ffn=384, target=1.5),
    "135m-2048": Shape(49152, 8, 2048, dim=576, layers=30, heads=9, ffn=1536, target=1.0, precision="bf16"),
}


# --- the PyTorch side ------------------------------------------------------------------------------------------------


def torch_model(shape):
    """A decoder as a competent user of eager PyTorch 1.13 writes it: fused QKV and gate-up products, baddbmm with the
    mask as its addend, one log_softmax over the vocabulary; or the same around nn.LSTM."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class RMSNorm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = RMSNorm(shape.dim), RMSNorm(shape.dim)
            self.qkv = nn.Linear(shape.dim, 3 * shape.dim, bias=False)
            self.o = nn.Linear(shape.dim, shape.dim, bias=False)
            self.gate_up = nn.Linear(shape.dim, 2 * shape.ffn, bias=False)
            self.down = nn.Linear(shape.ffn, shape.dim, bias=False)

        def forward(self, x, cos, sin, mask):
            b, t, d = x.shape
            h, w = shape.heads, d // shape.heads
            qk, v = self.qkv(self.norm1(x)).view(b, t, 3 * h, w).transpose(1, 2).split([2 * h, h], 1)
            half = torch.cat([-qk[..., w // 2:], qk[..., :w // 2]], -1)
            q, k = (qk * cos + half * sin).split([h, h], 1)
            scores = torch.baddbmm(mask, q.reshape(b * h, t, w), k.reshape(b * h, t, w).transpose(1, 2),
                                   alpha=w ** -0.5)
            out = torch.bmm(F.softmax(scores, -1), v.reshape(b * h, t, w))
            x = x + self.o(out.view(b, h, t, w).transpose(1, 2).reshape(b, t, d))
            gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
            return x + self.down(F.silu(gate) * up)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            copies = shape.head == "copy_paste"
            self.embed = nn.Embedding(shape.vocab + (copies and shape.tied), shape.dim)
            if shape.kind == "lstm":
                self.lstm = nn.LSTM(shape.dim, shape.dim, shape.layers, batch_first=True)
                self.state = None
            else:
                self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
                self.norm = RMSNorm(shape.dim)
            self.lm_head = nn.Linear(shape.dim, shape.vocab + copies, bias=False)
            if shape.tied:
                self.lm_head.weight = self.embed.weight
            nn.init.normal_(self.embed.weight, std=0.02)
            if copies:
                self.q, self.k = (nn.Linear(shape.dim, shape.dim, bias=False) for _ in range(2))
                self.sink = nn.Parameter(torch.randn(shape.dim) * shape.dim ** -0.5)
                self.q_gain = nn.Parameter(torch.ones(1))
            t, w = shape.length, shape.dim // shape.heads
            angle = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(0, w, 2) / w)
            self.register_buffer("cos", angle.cos().repeat(1, 2))
            self.register_buffer("sin", angle.sin().repeat(1, 2))
            self.register_buffer("mask", torch.full((t, t), -float("inf")).triu(1))

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            if shape.kind == "lstm":
                h, state = self.lstm(x, self.state)
                self.state = tuple(s.detach() for s in state)
            else:
                for block in self.blocks:
                    x = block(x, self.cos, self.sin, self.mask)
                h = self.norm(x)
            if shape.head == "vanilla":
                return F.cross_entropy(self.lm_head(h).flatten(0, 1), targets.flatten())
            return self.copy_loss(h, tokens, targets)

        def copy_loss(self, h, tokens, targets):
            logp = F.log_softmax(self.lm_head(h), -1)
            columns = torch.stack([targets, torch.full_like(targets, shape.vocab)], -1)
            logp_y, log_alpha = logp.gather(-1, columns).unbind(-1)
            q, k = self.q(h), self.k(h)
            q = q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6) * self.q_gain
            k = k * torch.rsqrt(k.square().mean(-1, keepdim=True) + 1e-6)
            scale = shape.dim ** -0.5
            scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=scale)
            a = F.softmax(torch.cat([scores, (q @ self.sink * scale)[..., None]], -1), -1)
            pi = (a[..., :-1] * (tokens[:, None, :] == targets[:, :, None])).sum(-1)
            alpha = log_alpha.exp()
            p = logp_y.exp() * (1 + alpha * a[..., -1] / (1 - alpha)) + alpha * pi
            return -p.clamp(min=1e-30).log().mean()

    return Model()


def torch_worker(shape, threads, device, compiled):
    """Answers `steps N` with the milliseconds of N training steps, as one JSON line each."""
    import contextlib
    import resource

    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    on_gpu = device == "cuda"
    finish = torch.cuda.synchronize if on_gpu else lambda: None
    autocast = (torch.autocast(device, torch.bfloat16) if shape.precision == "bf16" and on_gpu
                else contextlib.nullcontext())
    baseline = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = torch_model(shape).to(device)
    call = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)
    symbols = torch.randint(shape.vocab, (8, shape.batch, 1)).expand(-1, -1, shape.length + 1).to(device)
    for line in sys.stdin:
        milliseconds, cpu_milliseconds, loss = [], [], 0.0
        for i in range(int(line.split()[1])):
            tokens, targets = symbols[i % 8, :, :-1].contiguous(), symbols[i % 8, :, 1:].contiguous()
            start, cpu_start = time.perf_counter(), time.process_time()
            optimizer.zero_grad(set_to_none=True)
            with autocast:
                loss = call(tokens, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            finish()
            milliseconds.append(1e3 * (time.perf_counter() - start))
            cpu_milliseconds.append(1e3 * (time.process_time() - cpu_start))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"wall_ms": milliseconds, "cpu_ms": cpu_milliseconds, "loss": loss.item(),
                          "baseline_kib": baseline, "peak_kib": peak,
                          "parameters": sum(p.numel() for p in model.parameters())}), flush=True)


# --- taking turns ----------------------------------------------------------------------------------------------------


class Worker:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def steps(self, n):
        self.process.stdin.write(f"steps {n}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare_torch: a worker stopped: {' '.join(map(str, self.process.args))}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def torch_command(shape, threads, device="cpu", compiled=False):
    return [sys.executable, __file__, "--worker", json.dumps(dataclasses.asdict(shape)), "--threads", str(threads),
            "--device", device] + ["--compiled"] * compiled


def copylab_command(program, shape, threads, device="cpu"):
    options = {k: v for k, v in dataclasses.asdict(shape).items() if k != "target"}
    return [program, f"--threads={threads}", f"--device={device}"] + [
        f"--{k}={str(v).lower()}" for k, v in options.items()]


def alternate(commands, turns, steps, clock):
    """Median milliseconds of every turn of each worker, after one turn each to warm up."""
    workers = [Worker(c) for c in commands]
    for w in workers:
        w.steps(max(2, steps // 2))
    times = [[] for _ in workers]
    for _ in range(turns):
        for w, t in zip(workers, times):
            t.append(statistics.median(w.steps(steps)[clock]))
    for w in workers:
        w.close()
    return times


def spread(numerators, denominators):
    ratios = sorted(a / b for a, b in zip(numerators, denominators))
    return ratios[0], statistics.median(ratios), ratios[-1]


def loaded_blas():
    paths = {line.split()[-1] for line in open("/proc/self/maps") if "blas" in line.lower()}
    return ", ".join(sorted(os.path.basename(p) for p in paths)) or "none"


def print_machine(threads):
    import torch

    torch.set_num_threads(threads)
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
    blas = loaded_blas()
    print(f"machine   {cpu}, {os.cpu_count()} hardware threads, load {os.getloadavg()[0]:.1f}")
    print(f"python    {sys.version.split()[0]}")
    print(f"pytorch   {torch.__version__}, {torch.get_num_threads()} threads, BLAS {blas}")
    for line in torch.__config__.parallel_info().splitlines():
        if ("MKL" in line or "parallel backend" in line) and "NUM_THREADS" not in line:
            print("          " + line.strip())
    if "/blas/" in "".join(line for line in open("/proc/self/maps") if "libblas.so" in line):
        print("          this is the reference BLAS: the ratios flatter copylab (see --blas)")


def memory_table(program, shapes, threads):
    print("\npeak resident memory of a training step above what the process held before the model, MiB")
    print(f"{'shape':28} {'model+optimizer':>15} {'copylab':>9} {'over':>7} {'PyTorch':>9}")
    for name, shape in shapes.items():
        row = {}
        for side, command in (("copylab", program and copylab_command(program, shape, threads)),
                              ("torch", torch_command(shape, threads))):
            if command:
                with Worker(command) as w:
                    row[side] = w.steps(3)
        state = 4 * 4 * row["torch"]["parameters"] / 2 ** 20  # parameters, gradients, two moments in float32
        peak = {k: (r["peak_kib"] - r["baseline_kib"]) / 1024 for k, r in row.items()}
        ours = f"{peak['copylab']:9.0f} {peak['copylab'] - state:7.0f}" if "copylab" in peak else f"{'-':>9} {'-':>7}"
        print(f"{name:28} {state:15.0f} {ours} {peak['torch']:9.0f}")


def gemm_rate():
    """Operations per second of a large bfloat16 product, the fastest of a few."""
    import torch

    n, best = 8192, 0.0
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(8):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            a @ b
        torch.cuda.synchronize()
        best = max(best, 10 * 2 * n ** 3 / (time.perf_counter() - start))
    return best


def step_operations(shape, parameters):
    """Of one training step: 6 per weight and token, and the products of causal attention."""
    attention = 6 * shape.layers * shape.dim * shape.length  # scores and values, half of them visible, times three
    embedding = 0 if shape.tied else shape.vocab * shape.dim  # looked up, not multiplied
    return shape.rows * (6 * (parameters - embedding) + attention)


def compare_on_gpu(program, arguments):
    import torch

    if not torch.cuda.is_available():
        sys.exit("compare_torch: --device cuda: PyTorch sees no GPU")
    if not program:
        sys.exit("compare_torch: --device cuda: copylab_step_time not found; give it with --step-time")
    names = arguments.shape or list(GPU_SHAPES)
    rate = gemm_rate()
    print(f"gpu       {torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, "
          f"bf16 product {rate / 1e12:.0f} TFLOP/s")
    print(f"pytorch   {torch.__version__}\ncopylab   {program}\n")
    print(f"{'shape':16} {'eager':>9} {'compiled':>9} {'copylab':>9}   {'eager / ours':22} {'compiled / ours':22} "
          f"{'without / with graph':22} {'target':>6} {'of product':>10}")
    for name in names:
        shape = GPU_SHAPES[name]
        ours = copylab_command(program, shape, arguments.threads, "cuda")
        with Worker(ours) as w:
            first = w.steps(3)
        steps = max(3, round(600 / statistics.median(first["wall_ms"])))
        times = alternate([torch_command(shape, arguments.threads, "cuda"),
                           torch_command(shape, arguments.threads, "cuda", compiled=True), ours,
                           [*ours, "--cuda-graph=false"]],
                          arguments.turns or 5, steps, "wall_ms")
        eager, compiled, mine, _ = (statistics.median(t) for t in times)
        ratios = ["{:5.2f} /{:6.2f} /{:6.2f}".format(*spread(times[i], times[2])) for i in (0, 1, 3)]
        share = step_operations(shape, first["parameters"]) / (mine / 1e3) / rate
        print(f"{name:16} {eager:6.2f} ms {compiled:6.2f} ms {mine:6.2f} ms   {ratios[0]:22} {ratios[1]:22} "
              f"{ratios[2]:22} {shape.target:5.1f}x {share:9.0%}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}, few turns, no memory")
    parser.add_argument("--shape", nargs="+", choices=sorted({*SHAPES, *GPU_SHAPES}), help="only these")
    parser.add_argument("--step-time", type=pathlib.Path, help="the copylab_step_time program (default: searched "
                        "under build*/); without it only PyTorch is measured")
    parser.add_argument("--blas", type=pathlib.Path, help="folder of the libblas.so.3 PyTorch shall use")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--turns", type=int, help="turns of each side (default 9, quick 3)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    known = GPU_SHAPES if arguments.device == "cuda" else SHAPES
    for name in arguments.shape or ():
        if name not in known:
            sys.exit(f"compare_torch: --shape {name}: with --device {arguments.device} one of {', '.join(known)} expected")
    if arguments.worker:
        return torch_worker(Shape(**json.loads(arguments.worker)), arguments.threads, arguments.device,
                            arguments.compiled)
    if arguments.blas:
        if not (arguments.blas / "libblas.so.3").exists():
            sys.exit(f"compare_torch: --blas: no libblas.so.3 in {arguments.blas}")
        if os.environ.get("LD_LIBRARY_PATH", "").split(":")[0] != str(arguments.blas):  # the loader reads it at start
            os.environ["LD_LIBRARY_PATH"] = f"{arguments.blas}:" + os.environ.get("LD_LIBRARY_PATH", "")
            os.execv(sys.executable, [sys.executable, *sys.argv])
    os.environ.update({"OMP_NUM_THREADS": str(arguments.threads), "OPENBLAS_NUM_THREADS": str(arguments.threads)})

    program = arguments.step_time or next(iter(sorted(ROOT.glob("build*/tests/copylab_step_time"))), None)
    if arguments.device == "cuda":
        return compare_on_gpu(program, arguments)
    names = arguments.shape or (QUICK if arguments.quick else list(SHAPES))
    turns, goal_ms = arguments.turns or (3 if arguments.quick else 9), 150 if arguments.quick else 600
    print_machine(arguments.threads)
    print(f"copylab   {program or 'copylab_step_time not found: PyTorch only'}")
    print(f"clock     {arguments.clock}, median of a turn; {turns} turns of each side\n")
    print(f"{'shape':22} {'PyTorch':>9} {'copylab':>9}   {'ratio min/median/max':22} {'target':>6}   copy_paste/vanilla "
          "(copylab, PyTorch)")
    for name in names:
        vanilla = SHAPES[name]
        copy = dataclasses.replace(vanilla, head="copy_paste")
        commands = [torch_command(vanilla, arguments.threads), torch_command(copy, arguments.threads)]
        if program:
            commands += [copylab_command(program, s, arguments.threads) for s in (vanilla, copy)]
        with Worker(commands[0]) as w:
            steps = max(2, round(goal_ms / statistics.median(w.steps(3)["wall_ms"])))
        times = alternate(commands, turns, steps, arguments.clock + "_ms")
        ours = statistics.median(times[2]) if program else None
        ratio = spread(times[0], times[2]) if program else None
        overhead = f"{spread(times[3], times[2])[1]:.3f}, " if program else ""
        ratio_text = "{:5.2f} /{:6.2f} /{:6.2f}".format(*ratio) if ratio else "-"
        print(f"{name:22} {statistics.median(times[0]):6.1f} ms " + (f"{ours:6.1f} ms" if program else f"{'-':>9}") +
              f"   {ratio_text:22} {vanilla.target:5.0f}x   {overhead}{spread(times[1], times[0])[1]:.3f}", flush=True)
    if not arguments.quick:
        memory_table(program, {"V=131072 N=1024 tied": Shape(131072, 8, 128),
                               "V=131072 N=1024 untied": Shape(131072, 8, 128, tied=False),
                               "V=131072 N=1024 copy_paste": Shape(131072, 8, 128, head="copy_paste")},
                     arguments.threads)


if __name__ == "__main__":
    main()
