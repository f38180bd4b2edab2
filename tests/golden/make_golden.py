#!/usr/bin/python3
"""Writes the golden values of tests/golden/: inputs, outputs and gradients by PyTorch autograd in float64.

    make_golden.py [FILE.h5 …]    writes the files of FILES, all or those named
    make_golden.py --check        recomputes them and compares with the files, exit code 1 if a value differs

A case of ops.h5 is a group whose attributes are the op's numbers. Its datasets: `in.NAME` inputs (float ones exactly
representable in float32, so that both precisions see the same numbers), `out.NAME` outputs, `upstream.NAME` the
gradient that arrives at an output, `grad.NAME` the gradient of sum(upstream · out) with respect to a float input.
The attribute `f32_error` of an output or gradient is the largest difference PyTorch itself makes when it computes
in float32.
"""
import argparse
import pathlib
import sys
import zlib

import h5py
import numpy as np
import torch
import torch.nn.functional as F

import torch_model
import torch_ops as ops

HERE = pathlib.Path(__file__).parent
MAGIC, VERSION = "copylab-golden", 1
INF = float("inf")


class Draw:
    """Random inputs of one case, from its name alone: adding a case changes no other."""

    def __init__(self, name):
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def normal(self, *shape, std=1.0, mean=0.0):
        return (mean + std * self.rng.standard_normal(shape)).astype(np.float32).astype(np.float64)

    def integers(self, low, high, *shape):
        return self.rng.integers(low, high, shape).astype(np.int32)

    def flags(self, *shape, share=0.5):
        return (self.rng.random(shape) < share).astype(np.uint8)


def largest_difference(a, b):
    finite = np.isfinite(b)
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0))


def evaluate(function, inputs, upstream, dtype, constants=()):
    """Outputs of function(**inputs) and gradients of sum(upstream · out), as float64 arrays."""
    tensors = {}
    for name, value in inputs.items():
        tensors[name] = torch.tensor(value)
        if value.dtype == np.float64:
            tensors[name] = tensors[name].to(dtype).requires_grad_(name not in constants)
    outputs = function(**tensors)
    grads = {}
    if upstream:
        terms = []
        for name, up in upstream.items():
            live = torch.isfinite(outputs[name].detach()) & torch.tensor(up != 0)
            terms.append((outputs[name][live] * torch.tensor(up).to(dtype)[live]).sum())
        leaves = {n: t for n, t in tensors.items() if t.requires_grad}
        found = torch.autograd.grad(sum(terms), list(leaves.values()), allow_unused=True)
        for (name, leaf), g in zip(leaves.items(), found):
            grads[name] = (torch.zeros_like(leaf) if g is None else g).to(torch.float64).numpy()
    return {n: t.detach().to(torch.float64).numpy() for n, t in outputs.items()}, grads


def add_case(file, name, function, inputs, attributes=None, constants=(), statistics=()):
    """Adds a case. Inputs named in `constants` get no gradient; outputs named in `statistics` carry no upstream
    gradient, nor does an entry that is -inf."""
    draw = Draw(name + "/upstream")
    outputs, _ = evaluate(function, inputs, {}, torch.float64)
    upstream = {n: np.where(np.isfinite(v), draw.normal(*v.shape), 0.0) for n, v in outputs.items()
                if n not in statistics}
    outputs, grads = evaluate(function, inputs, upstream, torch.float64, constants)
    outputs32, grads32 = evaluate(function, inputs, upstream, torch.float32, constants)
    group = file.create_group(name)
    group.attrs.update(attributes or {})
    for n, v in inputs.items():
        group[f"in.{n}"] = v.astype(np.float32) if v.dtype == np.float64 else v
    for n, v in upstream.items():
        group[f"upstream.{n}"] = v.astype(np.float32)
    for kind, values, values32 in (("out", outputs, outputs32), ("grad", grads, grads32)):
        for n, v in values.items():
            group[f"{kind}.{n}"] = v
            group[f"{kind}.{n}"].attrs["f32_error"] = largest_difference(values32[n], v)


def rows_and_norms(file):
    d = Draw("rows")
    ids = d.integers(0, 11, 2, 9)
    add_case(file, "embedding", lambda table, ids: {"y": table[ids.long()]},
             {"table": d.normal(11, 6), "ids": ids})
    x, index = d.normal(7, 5), np.array([3, -1, 0, 3, 6, -1, 2], dtype=np.int32)

    def gather_rows(x, index):
        kept = x[index.clamp(min=0).long()]
        return {"y": torch.where((index >= 0)[:, None], kept, torch.zeros_like(kept))}

    def scatter_rows(x, index):
        kept = torch.where((index >= 0)[:, None], x, torch.zeros_like(x))
        return {"y": torch.zeros_like(x).index_add(0, index.clamp(min=0).long(), kept)}

    add_case(file, "gather_rows", gather_rows, {"x": x, "index": index})
    add_case(file, "scatter_rows", scatter_rows, {"x": x, "index": index})

    x = d.normal(5, 13, std=2.0, mean=0.5)
    add_case(file, "rms_norm/weight", lambda x, weight: {"y": ops.rms_norm(x, weight, 1e-5)},
             {"x": x, "weight": d.normal(13, mean=1.0, std=0.3)}, {"eps": 1e-5})
    add_case(file, "rms_norm/plain", lambda x: {"y": ops.rms_norm(x, None, 1e-6)}, {"x": x}, {"eps": 1e-6})
    add_case(file, "rms_norm/small", lambda x, weight: {"y": ops.rms_norm(x, weight, 1e-5)},
             {"x": d.normal(3, 4, std=1e-3), "weight": d.normal(4)}, {"eps": 1e-5})
    add_case(file, "layer_norm", lambda x, weight, bias: {"y": F.layer_norm(x, (13,), weight, bias, 1e-5)},
             {"x": x, "weight": d.normal(13, mean=1.0, std=0.3), "bias": d.normal(13)}, {"eps": 1e-5})

    batch, length, heads, width, theta = 2, 6, 3, 8, 10000.0

    def rope(x, positions):
        cos, sin = ops.rope_table(length + 30, width, theta, x.dtype)
        return {"y": ops.rope(x, cos, sin, positions)}

    for name, first in (("rope/start", 0), ("rope/offset", 29)):
        positions = np.tile(np.arange(first, first + length, dtype=np.int32), (batch, 1))
        add_case(file, name, rope, {"x": d.normal(batch, length, heads, width), "positions": positions},
                 {"theta": theta, "table_rows": length + 30})


def products_and_elementwise(file):
    d = Draw("products")
    x, w, b = d.normal(3, 7, 13), d.normal(17, 13), d.normal(17)
    add_case(file, "linear/bias", lambda x, weight, bias: {"y": F.linear(x, weight, bias)},
             {"x": x, "weight": w, "bias": b})
    add_case(file, "linear/plain", lambda x, weight: {"y": F.linear(x, weight)}, {"x": x, "weight": w})
    add_case(file, "swiglu", lambda gate, up: {"y": F.silu(gate) * up},
             {"gate": d.normal(5, 9, std=3.0), "up": d.normal(5, 9)})
    add_case(file, "relu_ffn", lambda x, up, down: {"y": F.relu(x @ up.T) @ down.T},
             {"x": d.normal(5, 6), "up": d.normal(10, 6), "down": d.normal(6, 10)})

    x = np.concatenate([d.normal(9, std=2.0), [0.0, 40.0, -40.0, 1e-4, 88.0, -88.0]])
    positive = np.concatenate([np.abs(d.normal(9, std=2.0)) + np.float32(0.125), [1e-3, 1e3]])
    positive = positive.astype(np.float32).astype(np.float64)
    unary = {
        "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "relu": F.relu,
        "softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),  # F.softplus is linear above 20
        "log_sigmoid": F.logsigmoid, "square": torch.square,
    }
    for name, function in unary.items():
        add_case(file, f"unary/{name}", lambda x, f=function: {"y": f(x)},
                 {"x": x.astype(np.float32).astype(np.float64)})
    add_case(file, "unary/exp", lambda x: {"y": torch.exp(x)},
             {"x": np.concatenate([d.normal(9, std=2.0), [0.0, -40.0, 10.0]])})
    add_case(file, "unary/log", lambda x: {"y": torch.log(x)}, {"x": positive})

    a, b = d.normal(4, 5, std=2.0), d.normal(4, 5, std=2.0)
    for name, function in {"add": torch.add, "sub": torch.sub, "mul": torch.mul}.items():
        add_case(file, f"binary/{name}", lambda a, b, f=function: {"y": f(a, b)}, {"a": a, "b": b})
    a, b = a.copy(), b.copy()
    a[0, :3], b[0, :3] = (-INF, 30.0, 1000.0), (0.5, -30.0, 1000.0)
    b[1, 0] = -INF
    add_case(file, "binary/logaddexp", lambda a, b: {"y": torch.logaddexp(a, b)}, {"a": a, "b": b})
    add_case(file, "affine", lambda x: {"y": -1.75 * x + 0.5}, {"x": d.normal(3, 4)}, {"alpha": -1.75, "beta": 0.5})
    add_case(file, "scale_by", lambda x, s: {"y": x * s}, {"x": d.normal(3, 4), "s": d.normal(1)})
    add_case(file, "weighted_sum", lambda x, w: {"y": (x * w).sum().reshape(1)},
             {"x": d.normal(3, 17), "w": d.normal(3, 17)}, constants=("w",))


def attention_cases(file):
    batch, length, width = 2, 7, 4
    variants = {
        "causal": dict(heads=2, kv_heads=2),
        "window": dict(heads=2, kv_heads=2, window=3),
        "grouped": dict(heads=4, kv_heads=2),
        "bias": dict(heads=2, kv_heads=2, bias=True),
        "allowed": dict(heads=2, kv_heads=1, allowed=True),
        "marked": dict(heads=2, kv_heads=2, marked=True),
        "segment": dict(heads=2, kv_heads=1, segment=True),
        "everything": dict(heads=4, kv_heads=2, window=4, bias=True, allowed=True, marked=True, segment=True),
    }
    for name, v in variants.items():
        d = Draw("attention/" + name)
        inputs = {"q": d.normal(batch, length, v["heads"], width, std=1.5),
                  "k": d.normal(batch, length, v["kv_heads"], width, std=1.5),
                  "v": d.normal(batch, length, v["kv_heads"], width)}
        if v.get("bias"):
            inputs["bias"] = d.normal(length, length)
        if v.get("allowed"):
            inputs["allowed"] = d.flags(batch, length, length, share=0.7)
            inputs["allowed"][0, 2, :] = 0  # a row that sees nothing
        if v.get("marked"):
            inputs["marked"] = d.flags(batch, length, share=0.6)
            inputs["marked"][:, 3] = 0
        if v.get("segment"):
            inputs["segment"] = np.array([[0, 0, 0, 1, 1, 1, 1], [5, 5, 6, 6, 6, 7, 7]], dtype=np.int32)
        attributes = {"window": v.get("window", 0), "scale": width ** -0.5}

        def function(q, k, v, **masks):
            out, probs = ops.attention(q, k, v, attributes["scale"], attributes["window"], **masks)
            return {"out": out, "probs": probs}

        add_case(file, "attention/" + name, function, inputs, attributes, constants=("bias",), statistics=("probs",))


def lm_head_cases(file):
    rows, dim, vocab = 9, 6, 23
    for name, options in {"plain": {}, "gate_row": {"extra": 1}, "excluded": {"extra": 1, "excluded": True},
                          "offset": {"offset": 1e4}}.items():
        d = Draw("lm_head/" + name)
        extra = options.get("extra", 0)
        h, w = d.normal(rows, dim), d.normal(vocab + extra, dim)
        if "offset" in options:  # every logit of a row moves by the same 1e4
            h[:, 0], w[:, 0] = 100.0, options["offset"] / 100.0
        columns = d.integers(0, vocab, rows, 2)
        columns[2, 0], columns[5, :] = -1, -1
        if extra:
            columns[:, 1] = vocab
        inputs = {"h": h, "w": w, "columns": columns}
        if options.get("excluded"):
            inputs["excluded"] = d.flags(vocab, share=0.3)

        def function(h, w, columns, excluded=None):
            logits = h @ w.T
            inside = logits[:, :vocab]
            if excluded is not None:
                inside = inside.masked_fill(excluded != 0, -INF)
            shift = inside.detach().max(-1).values
            chosen = logits.gather(1, columns.clamp(min=0).long()) - shift[:, None]
            return {"lse": torch.logsumexp(inside - shift[:, None], -1),
                    "logits": torch.where(columns >= 0, chosen, torch.zeros_like(chosen)),
                    "shift": shift, "argmax": inside.detach().argmax(-1).to(h.dtype)}

        add_case(file, "lm_head/" + name, function, inputs, {"vocab": vocab}, statistics=("shift", "argmax"))

    d = Draw("lm_head/cross_entropy")
    targets = d.integers(0, vocab, rows)
    targets[[1, 4]] = -1
    add_case(file, "lm_head/cross_entropy",
             lambda h, w, targets: {"loss": F.cross_entropy(h @ w.T, targets.long(), ignore_index=-1).reshape(1)},
             {"h": d.normal(rows, dim), "w": d.normal(vocab, dim), "targets": targets}, {"vocab": vocab})

    # Backward-only rank: the forward pass is the identity, the gradient of all rows is projected on the columns of
    # an orthonormal basis and brought back to its own RMS (papers: LiB §1.6).
    class ProjectGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, basis):
            ctx.save_for_backward(basis)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            basis, = ctx.saved_tensors
            projected = g @ basis @ basis.T
            return projected * torch.sqrt((g * g).mean() / (projected * projected).mean()), None

    basis = np.linalg.qr(d.normal(dim, 2))[0].astype(np.float32).astype(np.float64)
    add_case(file, "project_gradient", lambda x, basis: {"y": ProjectGradient.apply(x, basis)},
             {"x": d.normal(rows, dim), "basis": basis}, constants=("basis",))


def pointer_cases(file):
    batch, length, dim = 2, 9, 5
    variants = {
        "past": {},
        "copy_self": {"copy_self": True},
        "window": {"window": 4, "copy_self": True},
        "next": {"shift": 1, "copy_self": True},
        "next_past": {"shift": 1},
        "segment": {"segment": True},
        "no_sink": {"sink": False},
        "everything": {"shift": 1, "window": 5, "segment": True},
    }
    for name, v in variants.items():
        d = Draw("pointer/" + name)
        tokens, targets = d.integers(0, 3, batch, length), d.integers(0, 4, batch, length)
        targets[0, 4], targets[1, 8] = -1, -1
        inputs = {"q": d.normal(batch, length, dim, std=1.5), "k": d.normal(batch, length, dim, std=1.5)}
        if v.get("sink", True):
            inputs["sink"] = d.normal(batch, length)
        inputs.update(tokens=tokens, targets=targets)
        if v.get("segment"):
            inputs["segment"] = np.array([[0] * 4 + [1] * 5, [3] * 2 + [4] * 3 + [6] * 4], dtype=np.int32)
        attributes = {"shift": v.get("shift", 0), "copy_self": int(v.get("copy_self", False)),
                      "window": v.get("window", 0), "scale": dim ** -0.5}

        def function(q, k, tokens, targets, sink=None, segment=None):
            pi, a_sink, weights = ops.pointer(q, k, tokens, targets, attributes["scale"], sink,
                                                   attributes["shift"], bool(attributes["copy_self"]),
                                                   attributes["window"], segment)
            return {"log_copy": ops.safe_log(pi), "log_sink": ops.safe_log(a_sink), "weights": weights}

        add_case(file, "pointer/" + name, function, inputs, attributes, statistics=("weights",))


def copy_mixture_cases(file):
    """The mixtures of CPLM §2.5 from log P~(y), the gate's logit, log pi(y) and log a_sink."""
    n = 12
    d = Draw("copy_mixture")
    lm, gate = -np.abs(d.normal(n, std=4.0)) - np.float32(0.125), d.normal(n, std=3.0)
    share = np.clip(d.normal(n, std=0.25, mean=0.4), 0.02, 0.98)  # the sink's
    log_copy = np.log((1 - share) * np.clip(d.normal(n, std=0.3, mean=0.5), 0.05, 1.0))
    log_sink = np.log(share)
    log_copy[3], gate[5], gate[6] = -INF, 40.0, -40.0
    log_copy[5], log_sink[7], log_copy[7] = -INF, 0.0, -INF
    arrays = {"lm": lm, "gate_logit": gate, "log_copy": log_copy, "log_sink": log_sink}
    arrays = {k: v.astype(np.float32).astype(np.float64) for k, v in arrays.items()}
    no_sink = dict(arrays)
    empty = np.isneginf(no_sink["log_copy"])
    no_sink["log_sink"] = np.where(np.arange(n) == 7, 0.0, -INF)  # row 7 has no source to point at
    no_sink["log_copy"] = np.where(empty, -INF, arrays["log_copy"] - np.log1p(-share)).astype(np.float32).astype(
        np.float64)

    def case(name, mixture, inputs, drop_sink=0, gate_floor=0.0, constants=()):
        def function(lm, gate_logit, log_copy, log_sink):
            alpha, pi, a_sink, p_lm = torch.sigmoid(gate_logit), log_copy.exp(), log_sink.exp(), lm.exp()
            # 1 - alpha is written as sigmoid(-u): at u = 40 the difference would be 0.
            return {"nll": -mixture(p_lm, alpha, torch.sigmoid(-gate_logit), pi, a_sink).log()}

        add_case(file, "copy_mixture/" + name, function, inputs, {"drop_sink": drop_sink, "gate_floor": gate_floor},
                 constants)

    case("A", lambda p, a, rest, pi, s: p * rest * (1 + a * s / rest) + a * pi, arrays)
    case("B", lambda p, a, rest, pi, s: p * rest + a * pi, arrays, drop_sink=1)
    case("F", lambda p, a, rest, pi, s: torch.where(s == 0, rest * p + a * pi, p), no_sink,
         constants=("log_sink",))
    case("G", lambda p, a, rest, pi, s: ops.mixture_sigmoid(p, a, pi, s), {k: v[:5] for k, v in arrays.items()})

    def floor(p, a, rest, pi, s, epsilon=0.1):
        a = epsilon + (1 - epsilon) * a
        return p * (1 - a * (1 - s)) + a * pi

    case("I", floor, arrays, gate_floor=0.1)


def lstm_cases(file):
    batch, length, inputs_dim, hidden = 2, 5, 4, 3
    d = Draw("lstm")

    def function(x, w_ih, w_hh, b_ih, b_hh, h0, c0):
        # What torch.nn.LSTM(4, 3, batch_first=True) calls, with its weights as leaves.
        h, h_last, c_last = torch._VF.lstm(x, (h0[None], c0[None]), [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, False,
                                           False, True)
        return {"h": h, "h_last": h_last[0], "c_last": c_last[0]}

    add_case(file, "lstm", function,
             {"x": d.normal(batch, length, inputs_dim), "w_ih": d.normal(4 * hidden, inputs_dim),
              "w_hh": d.normal(4 * hidden, hidden), "b_ih": d.normal(4 * hidden), "b_hh": d.normal(4 * hidden),
              "h0": d.normal(batch, hidden), "c0": d.normal(batch, hidden)})


def optimizer_cases(file):
    """Three updates with given gradients: parameters after each, and AdamW's moments at the end."""
    n, steps = 11, 3
    lr = np.array([1e-2, 2e-2, 5e-3])

    def run(make, start, grads, dtype):
        param = torch.nn.Parameter(torch.tensor(start).to(dtype))
        optimizer = make([param])
        history = []
        for s in range(steps):
            optimizer.param_groups[0]["lr"] = float(lr[s])
            param.grad = torch.tensor(grads[s]).to(dtype)
            optimizer.step()
            history.append(param.detach().clone())
        state = optimizer.state[param]
        moments = {k: state[long].to(torch.float64).numpy() for k, long in (("m", "exp_avg"), ("v", "exp_avg_sq"))
                   if long in state}
        return {"param": torch.stack(history).to(torch.float64).numpy(), **moments}

    makers = {
        "adamw/decay": (lambda p: torch.optim.AdamW(p, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1), 0.1),
        "adamw/plain": (lambda p: torch.optim.AdamW(p, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0), 0.0),
        "sgd/decay": (lambda p: torch.optim.SGD(p, lr=1.0, weight_decay=0.1), 0.1),
        "sgd/plain": (lambda p: torch.optim.SGD(p, lr=1.0), 0.0),
    }
    for name, (make, decay) in makers.items():
        d = Draw(name)
        start, grads = d.normal(n), d.normal(steps, n, std=0.1)
        grads[:, 4] = 0.0
        values, values32 = (run(make, start, grads, t) for t in (torch.float64, torch.float32))
        group = file.create_group(name)
        group.attrs.update({"beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": decay})
        group["in.param"], group["in.grads"], group["in.lr"] = start.astype(np.float32), grads.astype(np.float32), lr
        for k, v in values.items():
            group[f"out.{k}"] = v
            group[f"out.{k}"].attrs["f32_error"] = largest_difference(values32[k], v)

    for name, limit in (("clip/active", 1.0), ("clip/inactive", 100.0)):
        d = Draw("clip")
        grads = [d.normal(3, 4), d.normal(5), d.normal(1)]
        params = [torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)) for g in grads]
        for p, g in zip(params, grads):
            p.grad = torch.tensor(g)
        norm = torch.nn.utils.clip_grad_norm_(params, limit)
        group = file.create_group(name)
        group.attrs.update({"max_norm": limit, "norm": norm.item()})
        for i, (p, g) in enumerate(zip(params, grads)):
            group[f"in.grad{i}"], group[f"out.grad{i}"] = g.astype(np.float32), p.grad.numpy()
            group[f"out.grad{i}"].attrs["f32_error"] = 1e-6


def start_values(config, name, std=0.5):
    """Parameters far from symmetric points: norms near 1, the rest normal; exact in float32."""
    values = {}
    for key, shape in torch_model.parameter_shapes(config).items():
        d = Draw(f"{name}/{key}")
        near_one = (not torch_model.decays(key) and not key.startswith("pos_embed")
                    and not key.endswith((".sink", ".sentinel", ".bias", ".b_ih", ".b_hh")))
        values[key] = d.normal(*shape, std=0.2, mean=1.0) if near_one else d.normal(*shape, std=std)
    return values


def settings(config):
    """The configuration as PATH=VALUE lines in the paths of the C++ settings."""
    shape = ("dim", "layers", "heads", "kv_heads", "tied")
    if config.kind == "transformer":
        shape += ("ffn", "backbone", "rope_theta")
    paths = {"head.kind": config.head, **{f"model.{k}": getattr(config, k) for k in shape}}
    if config.kind != "transformer":
        paths["model.kind"] = config.kind
    if config.backbone != "full":
        paths["model.window"] = config.window
    plain = torch_model.Config()
    for k in ("norm", "mlp", "bias", "positions", "max_positions", "meta_attention"):
        if getattr(config, k) != getattr(plain, k):
            paths[f"model.{k}"] = getattr(config, k)
    if config.yarn_scale > 1:
        paths.update({"model.yarn.scale": config.yarn_scale, "model.yarn.original_length": config.yarn_original})
    if config.head == "copy_paste":
        paths["head.dim"] = config.copy_dim
        for k in ("gate", "sink", "copy_self", "key_token", "qk_norm", "gate_floor", "detach"):
            paths[f"head.{k}"] = getattr(config, k)
        paths.update({f"head.{k}": getattr(config, k) for k in ("lm_aux", "lm_aux_over", "pointer_aux")
                      if getattr(config, k) != getattr(torch_model.Config, k)})
    if config.head == "pointer_sentinel":
        paths["head.window"] = config.head_window
        for k in ("projection", "scale", "auxiliary"):
            paths[f"head.{k}"] = getattr(config, k)
        paths.update({f"head.{path}": getattr(config, k) for path, k in (("gate", "g"), ("mixture", "mixture"))
                      if getattr(config, k) != getattr(torch_model.Config, k)})
    if config.head == "mixture_of_softmaxes":
        paths["head.components"] = config.components
    return [f"{k}={str(v).lower()}" for k, v in paths.items()]


def add_flat(group, name, arrays, dtype=np.float64):
    """One dataset for many small arrays, laid end to end in the order of the attributes `names` and `sizes`."""
    group[name] = np.concatenate([a.ravel() for a in arrays.values()]).astype(dtype)
    group[name].attrs["names"] = list(arrays)
    group[name].attrs["sizes"] = [a.size for a in arrays.values()]


def copy_paste_cases(file):
    copy = dict(head="copy_paste")
    add_models(file, {
        "vanilla/tied": dict(),
        "vanilla/untied": dict(tied=False),
        "vanilla/grouped": dict(kv_heads=1),
        "vanilla/sliding": dict(backbone="sliding", window=3),
        "vanilla/hybrid": dict(backbone="hybrid", window=2, layers=4, kv_heads=1, ffn=4),
        "vanilla/segment": dict(),
        "copy_paste/tied": copy,
        "copy_paste/untied": dict(**copy, tied=False),
        "copy_paste/segment": copy,
        "copy_paste/no_self": dict(**copy, copy_self=False),
        "copy_paste/sigmoid": dict(**copy, gate="sigmoid"),
        "copy_paste/sink_off": dict(**copy, sink="off"),
        "copy_paste/sink_off_no_self": dict(**copy, sink="off", copy_self=False),
        "copy_paste/sink_dropped": dict(**copy, sink="dropped"),
        "copy_paste/next": dict(**copy, key_token="next"),
        "copy_paste/no_qk_norm": dict(**copy, qk_norm=False),
        "copy_paste/narrow": dict(**copy, copy_dim=4),
        "copy_paste/gate_floor": dict(**copy, gate_floor=0.1),
        "copy_paste/detach_q": dict(**copy, detach="q"),
        "copy_paste/detach_k": dict(**copy, detach="k"),
        "copy_paste/detach_both": dict(**copy, detach="both"),
        "copy_paste/detach_gate": dict(**copy, detach="gate"),
        "copy_paste/detach_gate_sigmoid": dict(**copy, gate="sigmoid", detach="gate"),
        "copy_paste/detach_lm": dict(**copy, detach="lm", tied=False),
    })


def other_head_cases(file):
    copy, sentinel, mixture = dict(head="copy_paste"), dict(head="pointer_sentinel"), dict(head="mixture_of_softmaxes")
    add_models(file, {
        "copy_paste/lm_aux": dict(**copy, lm_aux=0.5),
        "copy_paste/lm_aux_extended": dict(**copy, lm_aux=0.5, lm_aux_over="extended"),
        "copy_paste/pointer_aux": dict(**copy, pointer_aux=0.5),
        "copy_paste/both_aux": dict(**copy, lm_aux=0.5, pointer_aux=2.0, copy_self=False, tied=False),
        "pointer_sentinel/tied": sentinel,
        "pointer_sentinel/untied": dict(**sentinel, tied=False),
        "pointer_sentinel/segment": sentinel,
        "pointer_sentinel/window": dict(**sentinel, head_window=3),
        "pointer_sentinel/no_auxiliary": dict(**sentinel, auxiliary=0.0),
        "pointer_sentinel/no_projection": dict(**sentinel, projection="none"),
        "pointer_sentinel/scaled": dict(**sentinel, scale="sqrt", auxiliary=0.5),
        "mixture_of_softmaxes/tied": mixture,
        "mixture_of_softmaxes/untied": dict(**mixture, tied=False, components=3),
        "mixture_of_softmaxes/one": dict(**mixture, components=1),
        "pointer_sentinel/sigmoid": dict(**sentinel, g="sigmoid"),
        "pointer_sentinel/constant": dict(**sentinel, g="constant", head_window=3, auxiliary=0.5),
        "pointer_sentinel/pointer": dict(**sentinel, mixture="pointer"),
        "pointer_sentinel/pointer_sigmoid": dict(**sentinel, mixture="pointer", g="sigmoid", tied=False),
    })


def block_cases(file):
    """GPT-2-style blocks, positions, and meta-attention; names that end with /intervention keep the model from using
    some positions, embeddings and paths."""
    gpt2 = dict(norm="layer", mlp="relu", bias=True)
    learned = dict(positions="learned", max_positions=9)
    both = {**gpt2, **learned, "meta_attention": "all"}
    add_models(file, {
        "vanilla/layer_norm": dict(norm="layer"),
        "vanilla/relu": dict(mlp="relu"),
        "vanilla/bias": dict(bias=True),
        "vanilla/learned": learned,
        "vanilla/no_positions": dict(positions="none"),
        "vanilla/gpt2": dict(**gpt2, **learned),
        "vanilla/yarn": dict(yarn_scale=4.0, yarn_original=4, rope_theta=100.0),
        "vanilla/meta": dict(meta_attention="all"),
        "vanilla/meta_first": dict(meta_attention="first", kv_heads=1),
        "vanilla/meta_last": dict(meta_attention="last", backbone="sliding", window=2),
        "vanilla/meta_gpt2": both,
        "vanilla/meta_gpt2_rope": dict(**gpt2, meta_attention="all", tied=False),
        "copy_paste/meta": dict(head="copy_paste", meta_attention="all"),
        "meta/segment": both,
        "meta/intervention": both,
        "meta_rope/intervention": dict(meta_attention="all"),
    }, meta=True)


def add_models(file, variants, meta=False):
    """Values and gradients of whole models, one case for each of the named configurations. With `meta` some tokens
    are meta-tokens."""
    batch, length = 2, 7
    d = Draw("model")
    tokens, targets = d.integers(0, 11, batch, length), d.integers(0, 11, batch, length)
    tokens[:, 4:6] = tokens[:, 1:3]  # something to copy
    targets[:, 2:5], targets[0, 6], targets[1, 0] = tokens[:, 1:4], -1, -1
    segment = np.array([[0, 0, 0, 0, 1, 1, 1], [2, 2, 3, 3, 3, 3, 3]], dtype=np.int32)
    file["tokens"], file["targets"], file["segment"] = tokens, targets, segment
    given = {}
    if meta:
        file["meta"] = np.array([[0, 1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 1, 0, 0]], dtype=np.uint8)
        given["meta"] = torch.tensor(file["meta"][()])
    shared = {}  # shapes -> group of the start values, stored once
    for name, options in variants.items():
        config = torch_model.Config(**options)
        shapes = str(torch_model.parameter_shapes(config))
        if shapes not in shared:
            path = f"params/{len(shared)}"
            shared[shapes] = path, start_values(config, path)
            add_flat(file.create_group(path), "values", shared[shapes][1], np.float32)
        path, start = shared[shapes]

        def run(dtype):
            params = {k: torch.tensor(v).to(dtype).requires_grad_(True) for k, v in start.items()}
            y = torch.tensor(targets)
            extra = given
            if name.endswith("/intervention"):
                extra = {**given, **{k: torch.tensor(v) for k, v in intervention(batch, length).items()}}
            out = torch_model.forward(config, params, torch.tensor(tokens), y,
                                      torch.tensor(segment) if name.endswith("/segment") else None, **extra)
            out["loss"] = torch_model.mean_loss(out, y)
            out["loss"].backward()
            values = {k: v.detach().to(torch.float64).numpy() for k, v in out.items()}
            grads = {k: (torch.zeros_like(p) if p.grad is None else p.grad).to(torch.float64).numpy()
                     for k, p in params.items()}
            return values, grads

        (values, grads), (values32, grads32) = run(torch.float64), run(torch.float32)
        group = file.create_group("cases/" + name)
        group.attrs.update({"settings": settings(config), "vocab": config.vocab, "params": path,
                            "use_segment": int(name.endswith("/segment"))})
        if name.endswith("/intervention"):
            for key, value in intervention(batch, length).items():
                group["in." + key] = value
        for key, value in values.items():
            group[key] = value
            group[key].attrs["f32_error"] = largest_difference(values32[key], value)
        add_flat(group, "grad", grads)
        group["grad_f32_error"] = [largest_difference(grads32[k], v) for k, v in grads.items()]


def stream_cases(file):
    """LSTMs that read two stretches: outputs of both, and the gradient of the second one's mean loss."""
    batch, lengths = 2, (4, 5)
    d = Draw("stream")
    ids = d.integers(0, 11, batch, sum(lengths) + 1)
    ids[:, 6:8] = ids[:, 1:3]  # something to copy from the first stretch
    tokens, targets = ids[:, :-1].copy(), ids[:, 1:].copy()
    targets[0, 5] = -1
    file["tokens"], file["targets"], file["lengths"] = tokens, targets, np.array(lengths, dtype=np.int32)
    lstm = dict(kind="lstm")
    for name, window, options in (
            ("vanilla/tied", 0, dict()),
            ("vanilla/untied", 0, dict(tied=False)),
            ("mixture_of_softmaxes/tied", 0, dict(head="mixture_of_softmaxes")),
            ("pointer_sentinel/batch_alone", 0, dict(head="pointer_sentinel")),
            ("pointer_sentinel/window", 7, dict(head="pointer_sentinel", tied=False)),
            ("copy_paste/window", 7, dict(head="copy_paste")),
            ("copy_paste/next", 3, dict(head="copy_paste", key_token="next", gate="sigmoid"))):
        config = torch_model.Config(**lstm, **options, head_window=window)
        start = start_values(config, "stream/" + name)
        y = torch.tensor(targets)

        def run(dtype):
            params = {k: torch.tensor(v).to(dtype).requires_grad_(True) for k, v in start.items()}
            outs = torch_model.forward_stretches(config, params, torch.tensor(tokens), y, lengths,
                                                 max(0, window - 1))
            torch_model.mean_loss(outs[1], y[:, lengths[0]:]).backward()
            values = {k: torch.cat([o[k] for o in outs], 1).detach().to(torch.float64).numpy() for k in outs[0]}
            return values, {k: p.grad.to(torch.float64).numpy() for k, p in params.items()}

        (values, grads), (values32, grads32) = run(torch.float64), run(torch.float32)
        group = file.create_group("cases/" + name)
        lines = settings(config)
        if config.head == "copy_paste":
            lines.append(f"head.window={window}")
        group.attrs.update({"settings": lines, "vocab": config.vocab})
        add_flat(group, "values", start, np.float32)
        for key, value in values.items():
            group[key] = value
            group[key].attrs["f32_error"] = largest_difference(values32[key], value)
        add_flat(group, "grad", grads)
        group["grad_f32_error"] = [largest_difference(grads32[k], v) for k, v in grads.items()]


def intervention(batch, length):
    d = Draw("intervention")
    zero_position, zero_embedding = d.flags(batch, length, share=0.4), d.flags(batch, length, share=0.3)
    allowed = d.flags(batch, length, length, share=0.7)
    allowed[:, 4, 1], allowed[0, 2, :] = 0, 0
    return {"zero_position": zero_position, "zero_embedding": zero_embedding, "allowed": allowed}


def training_cases(file):
    """Ten AdamW steps of a whole model: losses, gradient norms, final parameters."""
    steps, batch, length = 10, 2, 7
    d = Draw("training")
    tokens = d.integers(0, 11, steps, batch, length + 1)
    tokens[:, :, 4:] = tokens[:, :, :4]
    tokens, targets = tokens[:, :, :-1].copy(), tokens[:, :, 1:].copy()
    targets[:, 0, 0] = -1
    lr = np.array([1e-3, 2e-3, 3e-3, 3e-3, 3e-3, 3e-3, 2.5e-3, 2e-3, 1e-3, 5e-4])
    file["tokens"], file["targets"], file["lr"] = tokens, targets, lr
    for head in ("vanilla", "copy_paste"):
        config = torch_model.Config(head=head, backbone="hybrid", window=3, layers=4, kv_heads=1, ffn=4)
        start = start_values(config, "training/" + head, std=0.3)  # larger ones make float32 chaotic

        def run(dtype):
            params = {k: torch.tensor(v).to(dtype) for k, v in start.items()}
            losses, norms = torch_model.train(config, params, torch.tensor(tokens), torch.tensor(targets), lr)
            final = {k: p.detach().to(torch.float64).numpy() for k, p in params.items()}
            return {"loss": np.array(losses), "grad_norm": np.array(norms)}, final

        (exact, final), (rough, final32) = run(torch.float64), run(torch.float32)
        group = file.create_group(head)
        group.attrs.update({"settings": settings(config), "vocab": config.vocab, "beta1": 0.9, "beta2": 0.95,
                            "eps": 1e-8, "weight_decay": 0.01, "clip": 1.0})
        for key, value in exact.items():
            group[key] = value
            group[key].attrs["f32_error"] = largest_difference(rough[key], value)
        add_flat(group, "start", start, np.float32)
        add_flat(group, "final", final)
        group["final_f32_error"] = [largest_difference(final32[k], v) for k, v in final.items()]


FILES = {
    "ops.h5": (rows_and_norms, products_and_elementwise, attention_cases, lm_head_cases, pointer_cases,
               copy_mixture_cases, lstm_cases, optimizer_cases),
    "model.h5": (copy_paste_cases,),
    "heads.h5": (other_head_cases,),
    "streams.h5": (stream_cases,),
    "blocks.h5": (block_cases,),
    "training.h5": (training_cases,),
}


def write(path, makers):
    with h5py.File(path, "w") as file:
        file.attrs.update({"magic": MAGIC, "version": VERSION, "torch": str(torch.__version__)})
        for make in makers:
            make(file)


def differences(fresh, stored):
    """Names of datasets that are missing on one side, or differ by more than 1e-12 of their size."""
    def datasets(file):
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return found

    a, b = datasets(fresh), datasets(stored)
    wrong = sorted(a.keys() ^ b.keys())
    for name in sorted(a.keys() & b.keys()):
        same = a[name].shape == b[name].shape and np.allclose(a[name], b[name], rtol=1e-12, atol=1e-12, equal_nan=True)
        if not same:
            wrong.append(name)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", choices=[[], *FILES], metavar="FILE.h5", help="default: all")
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failed = False
    for name, makers in FILES.items():
        if arguments.files and name not in arguments.files:
            continue
        path = HERE / name
        if not arguments.check:
            write(path, makers)
            print(f"{name}: {path.stat().st_size // 1024} KiB")
            continue
        with h5py.File(name, "w", driver="core", backing_store=False) as fresh, h5py.File(path, "r") as stored:
            for make in makers:
                make(fresh)
            wrong = differences(fresh, stored)
        failed |= bool(wrong)
        print(f"{name}: " + (f"{len(wrong)} datasets differ: {', '.join(wrong[:5])}" if wrong else "same values"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
