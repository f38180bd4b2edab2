"""Writes sweeps and runs as copylab does, with made-up numbers, for the tests."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path

import h5py
import numpy as np

BASE = {
    "task.name": "spamlang", "task.vocab": 1024, "task.length": 64, "task.period": 1, "task.interleave": 1,
    "model.dim": 64, "model.tied": True, "head.kind": "vanilla", "head.rank": 0, "head.backward_rank": 0,
    "head.detach": "none", "train.lr": 1e-3, "train.budget": "tokens",
}  # fmt: skip
TOKENS = 1_310_720


def write_run(folder: Path, config: dict, evaluated: dict, tokens: int = TOKENS) -> None:
    """evaluated: address -> number, or (values, {dim: coordinates})."""
    folder.mkdir(parents=True, exist_ok=True)
    with h5py.File(folder / "metrics.h5", "w") as file:
        fields = file.create_group("config")
        for name, value in config.items():
            fields.attrs[name] = value
        file["train/step"] = np.array([1, 2])
        file["train/tokens"] = np.array([tokens // 2, tokens])
        for address, value in evaluated.items():
            values, coords = value if isinstance(value, tuple) else (value, {})
            dataset = file.create_dataset(f"eval/{address}", data=np.asarray(values, dtype=float))
            if coords:
                dataset.attrs["dims"] = list(coords)
            for dim, along in coords.items():
                if dim not in dataset.parent:
                    named = isinstance(along[0], str)
                    dataset.parent.create_dataset(dim, data=along, dtype=h5py.string_dtype() if named else float)


def write_sweep(path: Path, columns: dict, **attributes: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update({"title": "", "command": "", "select_over": "", **attributes})
        for name, values in columns.items():
            text = isinstance(values[0], str)
            values = [np.uint8(v) if isinstance(v, bool) else v for v in values]
            file.create_dataset(f"cells/{name}", data=values, dtype=h5py.string_dtype() if text else None)


class Builder:
    """Collects cells, then writes the sweep file."""

    def __init__(self, results: Path, experiment: str, preset: str):
        self.results, self.experiment, self.preset = results, experiment, preset
        self.rows: list[dict] = []

    def add(self, arm: str, coordinates: dict, seed: int, config: dict, evaluated: dict, *, status: str = "done",
            roles: tuple = ("best", "same"), tokens: int = TOKENS) -> str:  # fmt: skip
        run = f"{arm}-{self.preset}-{len(self.rows):08x}"
        if status == "done":
            write_run(self.results / self.experiment / run, {**config, **coordinates, "seed": seed}, evaluated, tokens)
        self.rows.append({"run": run, "arm": arm, "seed": seed, "status": status, **coordinates,
                          **{role: np.uint8(role in roles) for role in ("tune", "best", "same")}})  # fmt: skip
        return run

    def write(self, **attributes: str) -> None:
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        path = self.results / self.experiment / f"sweep-{self.preset}.h5"
        write_sweep(path, columns, experiment=self.experiment, preset=self.preset, **attributes)


def spamlang_accuracy(arm: str, vocab: int, draws: float, noise: random.Random) -> float:
    if arm == "copy_paste":
        return min(1.0, 0.999 - 0.004 * noise.random())
    return 1 / vocab + (1 - 1 / vocab) / (1 + math.exp(-(math.log(draws) - 1.0 + 0.5 * noise.gauss(0, 1)) * 1.6))


def _evaluated(accuracy: float, vocab: int, length: int, tokens: int, ceiling: float = 1.0) -> dict:
    return {
        "test/accuracy": accuracy, "test/loss": 1.0, "test/ceiling": ceiling, "test/chance": 1 / vocab,
        "test/budget_sequences_per_symbol": tokens / length / vocab,
    }  # fmt: skip


def spamlang_quick(results: Path, vocabs=(256, 1024, 4096, 16384), seeds=(1, 2, 3), absent=()) -> None:
    """Two heads, tied and untied. absent: (arm, tied, vocab, seed) of cells to leave undone."""
    noise, builder = random.Random(1), Builder(results, "spamlang", "quick")
    for arm, tied, vocab, seed in itertools.product(("vanilla", "copy_paste"), (True, False), vocabs, seeds):
        for lr, roles in ((3e-3, ("best",)), (1e-3, ("same",))):
            accuracy = spamlang_accuracy(arm, vocab, TOKENS / 64 / vocab * (1.0 if roles == ("best",) else 0.6), noise)
            builder.add(
                arm, {"task.vocab": vocab, "model.tied": tied, "train.lr": lr}, seed, {**BASE, "head.kind": arm},
                _evaluated(accuracy, vocab, 64, TOKENS), roles=roles,
                status="missing" if (arm, tied, vocab, seed) in absent else "done",
            )  # fmt: skip
    builder.write(title="SpamLang", command="copylab run spamlang --preset quick", select_over="train.lr")


def spamlang_full(results: Path, seeds=(1, 2, 3)) -> None:
    """Everything the figure has a panel for."""
    noise, builder = random.Random(2), Builder(results, "spamlang", "full")

    def add(arm: str, seed: int, accuracy=None, ceiling=1.0, roles=("best", "same"), **fields) -> None:
        swept = {name: fields.get(name, BASE[name]) for name in
                 ("task.vocab", "task.length", "task.period", "task.interleave", "model.tied", "head.rank",
                  "head.backward_rank", "head.detach", "train.budget")}  # fmt: skip
        vocab, length = swept["task.vocab"], swept["task.length"]
        tokens = TOKENS if swept["train.budget"] == "tokens" else 16 * vocab * length
        if accuracy is None:
            accuracy = spamlang_accuracy(arm, vocab, tokens / length / vocab, noise)
        kind = "copy_paste" if arm.startswith("copy_paste") else "vanilla"
        builder.add(arm, swept, seed, {**BASE, "head.kind": kind},
                    _evaluated(accuracy, vocab, length, tokens, ceiling), roles=roles, tokens=tokens)  # fmt: skip

    for seed in seeds:
        for vocab in (256, 1024, 4096, 16384, 65536, 131072):
            for arm in ("vanilla", "copy_paste"):
                for tied in (True, False):
                    add(arm, seed, roles=("best",), **{"task.vocab": vocab, "model.tied": tied})
                    add(arm, seed, roles=("same",), **{"task.vocab": vocab, "model.tied": tied})
                if arm == "vanilla":
                    add(arm, seed, **{"task.vocab": vocab, "task.length": 1})
                    add(arm, seed, **{"task.vocab": vocab, "train.budget": "sequences_per_symbol"})
        for rank in (4, 8, 16, 32):
            add("forward_rank", seed, 0.02 * rank**0.5 + 0.02 * noise.random(), **{"task.vocab": 16384, "head.rank": rank})
            add("backward_rank", seed, 0.045 * rank**0.5 + 0.02 * noise.random(), **{"task.vocab": 16384, "head.backward_rank": rank})
        for blocked, good in (("none", 0.87), ("q", 0.5), ("k", 0.62), ("both", 0.2)):
            for field, n in (("task.period", 8), ("task.interleave", 4)):
                add("copy_paste", seed, good + 0.05 * noise.random(), 0.89, **{field: n, "head.detach": blocked})
    builder.write(title="SpamLang", command="copylab run spamlang --preset full", select_over="train.lr")


def gradient_rank(results: Path, seeds=(1, 2, 3), vocabs=(256, 1024, 4096), absent=()) -> None:
    """All measures of gradient-rank for a dense head, and heads of bounded rank. absent: (vocab, seed)."""
    noise, builder, dim = random.Random(3), Builder(results, "gradient-rank", "quick"), 64
    for seed, vocab in itertools.product(seeds, vocabs):
        null = math.sqrt(dim / vocab)
        cosine = min(1.0, null * (1.5 + 0.1 * noise.random()))
        tokens = [256, 1024, 4096]
        singular = [vocab**-0.5 * k**-0.6 * (1 if k < 0.95 * vocab else 1e-2) for k in range(1, vocab)]
        norms = [1e-3, 1e-2, 1e-1, 1.0]
        decrease = [[gain * x * (1 - 0.9 * x * (row == 1)) - 0.05 * (row == 1 and x == 1) for x in norms]
                    for row, gain in enumerate((0.004 + 0.001 * noise.random(), 0.08, 0.06))]  # fmt: skip
        evaluated = {
            "head_gradient/rank": dim, "head_gradient/c": cosine, "head_gradient/r": math.sqrt(1 - cosine**2),
            "head_gradient/initial_c": null, "head_gradient/initial_r": math.sqrt(1 - null**2),
            "head_gradient/c_null": null, "head_gradient/r_null": math.sqrt(1 - null**2),
            "gradient_rank/rank": ([min(n, vocab - 1) * (0.9 + 0.05 * noise.random()) for n in tokens], {"tokens": tokens}),
            "gradient_rank/singular_values": singular,
            "update_rank/bound": 2 * dim, "update_rank/rank_first_order": 2 * dim,
            "update_rank/rank_finite": 2 * dim - seed, "update_rank/rank_gradient": min(512, vocab - 1),
            "update_efficiency/decrease_direct": ([0.1 * x for x in norms], {"norm": norms}),
            "update_efficiency/decrease": (decrease, {"path": [0, 1, 2], "norm": norms}),
            "two_dimensions/accuracy": ([1, 1, 1], {"vocab": [16, 256, 16384]}),
            "two_dimensions/accuracy_float32": ([1, 1, 0.3], {"vocab": [16, 256, 16384]}),
            "valid/tokens": [1e5, 2e5, 4e5], "valid/loss": [3.0, 2.0, 1.5],
        }  # fmt: skip
        status = "missing" if (vocab, seed) in absent else "done"
        builder.add("vanilla", {"task.vocab": vocab, "head.rank": 0}, seed, BASE, evaluated, status=status)
    for seed, rank in itertools.product(seeds, (4, 16, 32)):
        curve = {"valid/tokens": [1e5, 2e5, 4e5], "valid/loss": [4.0 - rank / 40, 3.2 - rank / 40, 2.6 - rank / 40]}
        builder.add("bounded", {"task.vocab": vocabs[-1], "head.rank": rank}, seed, BASE, curve)
    builder.write(title="Gradient rank", command="copylab run gradient-rank --preset quick")


TEXT = {
    "task.name": "text", "task.level": "bpe", "task.vocab": 4096, "task.length": 128, "model.backbone": "full",
    "model.window": 16, "model.dim": 64, "model.layers": 4, "model.tied": True, "head.kind": "vanilla", "head.rank": 0,
    "head.backward_rank": 0, "train.schedule": "wsd", "train.decay": 0.2,
}  # fmt: skip


def text_loss(tokens: float) -> float:
    """Falls from 8 to about 5 nats within TOKENS."""
    return 4.5 + 3.5 / (1 + 10 * tokens / TOKENS)


def text_run(saving: float, offset: float = 0.0, evaluations: int = 20) -> dict:
    """A run that is everywhere `saving` times ahead of text_loss, moved by `offset` nats."""
    tokens = [i * TOKENS // evaluations for i in range(evaluations + 1)]
    losses = [text_loss(saving * t) + offset for t in tokens]
    return {"valid/tokens": tokens, "valid/loss": losses, "test/loss": losses[-1]}


def token_efficiency(results: Path, seeds=(1, 2, 3), absent=()) -> None:
    """Three backbones at one width and two more widths. absent: (arm, backbone, width, seed)."""
    noise, builder = random.Random(4), Builder(results, "token-efficiency", "quick")
    savings = {("full", 64): 1.2, ("sliding", 64): 1.5, ("hybrid", 64): 1.3, ("full", 32): 1.6, ("full", 128): 0.9}
    for ((backbone, dim), saving), seed in itertools.product(savings.items(), seeds):
        offset, ahead = 0.02 * noise.gauss(0, 1), saving * (1 + 0.04 * noise.gauss(0, 1))
        for arm, times in (("vanilla", 1.0), ("copy_paste", ahead)):
            evaluated = text_run(times, offset)
            evaluated["test/loss_by_slice"] = ([evaluated["test/loss"] - 1, evaluated["test/loss"] + 1], {"slice": ["copyable", "new"]})
            evaluated["transfer/loss"] = 6.0 - 0.02 * (arm == "copy_paste")
            if arm == "copy_paste":
                evaluated |= {"overhead/time_ratio": 1.1 + 0.01 * seed, "overhead/flop_ratio": 1.05, "overhead/parameter_ratio": 1.02}
            status = "missing" if (arm, backbone, dim, seed) in absent else "done"
            builder.add(arm, {"model.backbone": backbone, "model.dim": dim}, seed, TEXT, evaluated, status=status)
    builder.write(title="Token saving", command="copylab run token-efficiency --preset quick")


def sizes(results: Path, seeds=(1, 2, 3), widths=(32, 64, 128), absent=()) -> None:
    """S falls with the width, and so do the rates, the Copy-Paste head's being the lower one. absent: (arm, D, seed)."""
    noise, builder, rates = random.Random(8), Builder(results, "sizes", "quick"), (4e-3, 8e-3, 1.6e-2, 3.2e-2)
    for i, dim in enumerate(widths):
        best = {"vanilla": rates[3 - i], "copy_paste": rates[2 - i]}
        for arm, rate in itertools.product(best, rates):
            worse = 0.1 * abs(math.log2(rate / best[arm]))
            builder.add(arm, {"model.dim": dim, "train.lr": rate}, 1001, TEXT, text_run(1.0, worse), roles=("tune",))
        for seed in seeds:
            ahead = (1.6 - 0.2 * i) * (1 + 0.03 * noise.gauss(0, 1))
            for arm, times in (("vanilla", 1.0), ("copy_paste", ahead)):
                evaluated = text_run(times, 0.01 * seed - 0.3 * i)
                loss = evaluated["test/loss"]
                evaluated["test/loss_by_slice"] = ([loss - 1 - 0.2 * (times > 1), loss + 1 + 0.1 * (times > 1)], {"slice": ["copyable", "new"]})
                status = "missing" if (arm, dim, seed) in absent else "done"
                builder.add(arm, {"model.dim": dim, "train.lr": best[arm]}, seed, TEXT, evaluated, status=status, roles=("best",))
    builder.write(title="Sizes", command="copylab run sizes --preset quick", select_over="train.lr")


def windows(results: Path, seeds=(1, 2, 3), gain=0.1, absent=()) -> None:
    """Loss falls with the memory; the Copy-Paste model is `gain` nats better at its window. absent: (arm, w, seed)."""
    noise, builder, length, layers, dim = random.Random(5), Builder(results, "windows", "quick"), 256, 4, 64
    config = {**TEXT, "task.length": length, "model.backbone": "sliding"}
    for window, seed in itertools.product((8, 16, 64, 256), seeds):
        shift = 0.01 * seed
        for arm in ("vanilla", "copy_paste"):
            copy = arm == "copy_paste"
            memory = 4 * dim * (2 * layers * window / length + copy)
            loss = 5.5 - 0.1 * math.log2(window) + shift + (0.002 * noise.gauss(0, 1) - gain if copy else 0)
            status = "missing" if (arm, window, seed) in absent else "done"
            builder.add(arm, {"model.window": window}, seed, config, {"cache/bytes_per_token": memory, "test/loss": loss}, status=status)
    builder.write(title="Windows", command="copylab run windows --preset quick")


def byte_level(results: Path, seeds=(1, 2, 3), absent=()) -> None:
    """The gain is 0.1 r bits per byte. absent: (arm, V, D, seed)."""
    noise, builder = random.Random(6), Builder(results, "byte-level", "quick")
    settings = [("byte", 256, 256), ("byte", 256, 64), ("bpe", 512, 64), ("bpe", 1024, 64), ("bpe", 4096, 64), ("bpe", 4096, 256)]
    for (level, vocab, dim), seed in itertools.product(settings, seeds):
        lost = math.sqrt(max(0.0, 1 - dim / vocab))
        for arm in ("vanilla", "copy_paste"):
            ahead = 1 + 0.3 * lost + 0.03 * noise.gauss(0, 1) if arm == "copy_paste" else 1.0
            bits = 2.5 - 0.05 * math.log2(vocab) + (0.004 * noise.gauss(0, 1) - 0.1 * lost if arm == "copy_paste" else 0)
            evaluated = {**text_run(ahead), "test/bits_per_byte": bits, "head_gradient/r": lost}
            status = "missing" if (arm, vocab, dim, seed) in absent else "done"
            builder.add(arm, {"task.level": level, "task.vocab": vocab, "model.dim": dim}, seed, TEXT, evaluated, status=status)
    builder.write(title="Byte level", command="copylab run byte-level --preset quick")


def bounded_rank(results: Path, seeds=(1, 2, 3), absent=()) -> None:
    """The loss beyond the dense head's is 1/rank, and half of that where only the gradient is bounded.
    absent: (arm, seed)."""
    noise, builder = random.Random(7), Builder(results, "bounded-rank", "quick")
    arms = {"dense": (0, 0)}
    arms |= {f"forward_{r}": (r, 0) for r in (4, 8, 16, 32)} | {f"backward_{r}": (0, r) for r in (4, 8, 16, 32)}
    for (arm, (forward, backward)), seed in itertools.product(arms.items(), seeds):
        gap = 1 / forward if forward else 0.5 / backward * (1 + 0.05 * noise.gauss(0, 1)) if backward else 0
        config = {**TEXT, "model.tied": False, "head.rank": forward, "head.backward_rank": backward}
        status = "missing" if (arm, seed) in absent else "done"
        builder.add(arm, {}, seed, config, text_run(1.0, gap + 0.01 * seed), status=status)
    builder.write(title="Bounded rank", command="copylab run bounded-rank --preset quick")


def update_depth(results: Path, seeds=(1, 2, 3), layers=(2, 4, 8)) -> None:
    """The step through the hidden states gains a tenth of the direct one, at every depth."""
    noise, builder = random.Random(11), Builder(results, "update-depth", "quick")
    norms = [1e-3, 1e-2, 1e-1, 1.0]
    for depth, seed in itertools.product(layers, seeds):
        ratio = 10 + noise.random()
        direct = [0.1 * x for x in norms]
        evaluated = {
            "update_efficiency/decrease_direct": (direct, {"norm": norms}),
            "update_efficiency/decrease": ([[x / ratio for x in direct]] * 3, {"path": [0, 1, 2], "norm": norms}),
            "update_efficiency/ratio_hidden": ratio, "update_efficiency/ratio_null": 8.0,
        }  # fmt: skip
        builder.add(f"layers_{depth}", {}, seed, {**TEXT, "model.layers": depth}, evaluated)
    builder.write(title="Update depth", command="copylab run update-depth --preset quick")


def greedy_loops(results: Path, seeds=(1, 2, 3)) -> None:
    """A quarter of the plain arm's continuations loop, half of the other's, and none at a floor."""
    builder = Builder(results, "greedy-loops", "quick")
    for (arm, rate), seed in itertools.product({"vanilla": 0.25, "copy_paste": 0.5}.items(), seeds):
        evaluated = {
            "generation/repeated": ([[0.8, 0.6, 0.4, rate]] * 2, {"lm_floor": [0, 0.3], "ngram": [1, 2, 3, 4]}),
            "generation/repeated_text": ([0.3, 0.1, 0.02, 0.01], {"ngram": [1, 2, 3, 4]}),
            "generation/loops": ([rate, 0.0], {"lm_floor": [0, 0.3]}), "generation/loop_rate": rate,
        }  # fmt: skip
        builder.add(arm, {}, seed, TEXT, evaluated)
    builder.write(title="Greedy loops", command="copylab run greedy-loops --preset quick")


def induction(results: Path, seeds=(1, 2, 3), experiment="induction", absent=()) -> None:
    """Both arms of induction: six layers of four heads, and a copy head in one arm. absent: (arm, seed)."""
    noise, builder = random.Random(4), Builder(results, experiment, "quick")
    blocks, thresholds, top, steps = [8, 16, 32], [0.2, 0.3, 0.4, 0.5], [1, 2, 4], [0, 10, 100, 1000]
    for arm, seed in itertools.product(("vanilla", "copy_paste"), seeds):
        pointer = arm == "copy_paste"
        score = [[0.02 + 0.01 * noise.random() for _ in range(4)] for _ in range(6)]
        for layer, head in ((2, 1), (3, 0), (3, 2))[: 1 if pointer else 3]:
            score[layer][head] = 0.6 + 0.3 * noise.random()
        flat = [x for row in score for x in row]
        evaluated = {
            "induction/nll": ([0.01 * noise.random() if pointer else 0.3 / t + 0.1 for t in blocks], {"block": blocks}),
            "induction/nll_uniform": math.log(128), "induction/score_block": 32, "induction/heads": 24,
            "induction/score": (score, {"layer": range(6), "head": range(4)}),
            "induction/heads_above": ([sum(x > t for x in flat) for t in thresholds], {"threshold": thresholds}),
            "induction/training/score": ([score] * len(steps), {"step": steps, "layer": range(6), "head": range(4)}),
            "induction/training/score_best": ([max(flat) * s / 1000 for s in steps], {"step": steps}),
            "head_knockout/top_repeat_change": ([0.3 * k + 0.1 * noise.random() for k in top], {"top": top}),
            "head_knockout/bottom_repeat_change": ([0.01 * k for k in top], {"top": top}),
        }  # fmt: skip
        if pointer:
            evaluated |= {
                "induction/no_copy_nll": ([2.0 + noise.random() for _ in blocks], {"block": blocks}),
                "induction/copy_head_score": 0.97, "induction/copy_head_gated_score": 0.91,
                "induction/training/copy_head_score": ([0.97 * s / 1000 for s in steps], {"step": steps}),
                "head_knockout/no_copy_repeat_change": 2.0 + noise.random(),
            }  # fmt: skip
        config = {**BASE, "head.kind": arm, "model.layers": 6, "model.heads": 4}
        builder.add(arm, {}, seed, config, evaluated, status="missing" if (arm, seed) in absent else "done")
    builder.write(title="Induction", command=f"copylab run {experiment} --preset quick")
