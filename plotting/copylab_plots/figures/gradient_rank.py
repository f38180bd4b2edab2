"""Gradient rank: how much of the logit gradient passes the output matrix, against what chance would pass."""

from __future__ import annotations

from collections import defaultdict
from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import style
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common

VOCAB, WIDTH, HEAD_RANK, BACKWARD_RANK = "task.vocab", "model.dim", "head.rank", "head.backward_rank"


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption)


class Data:
    """The cells to draw. Most panels look at the dense head; bounded heads have a panel of their own."""

    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep = sweep
        self.cells = cells
        self.done = [c for c in cells if c.done]
        self.absent = [c for c in cells if not c.done]
        self.dense = [c for c in self.done if not c.get(HEAD_RANK) and not c.get(BACKWARD_RANK)]

    def with_result(self, address: str) -> list[Cell]:
        return [c for c in self.dense if c.has(address)]

    def largest(self, address: str) -> list[Cell]:
        """The cells with the most symbols per dimension: where the bottleneck is narrowest."""
        cells = self.with_result(address)
        ratio = max((c[VOCAB] / c[WIDTH] for c in cells), default=0)
        return [c for c in cells if c[VOCAB] / c[WIDTH] == ratio]


# ---- panels --------------------------------------------------------------------------------------------------


class Loss:
    """r or c of the finished model and at initialisation, over the share D/V, with the isotropic null."""

    def __init__(self, name: str, title: str, label: str, about: str):
        self.name, self.title, self.label, self.about = name, title, label, about

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result(f"head_gradient/{self.name}"))

    def draw(self, data: Data, axes: Axes) -> None:
        def share(cell: Cell) -> float:
            return cell.value("head_gradient/rank") / cell[VOCAB]

        cells = data.with_result(f"head_gradient/{self.name}")
        axes.set_xscale("log", base=2)
        if self.name == "c":
            axes.set_yscale("log", base=2)
            axes.yaxis.set_major_formatter(style.plain_numbers())
        null = {share(c): c.value(f"head_gradient/{self.name}_null") for c in cells}
        axes.plot(sorted(null), [null[x] for x in sorted(null)], color=style.GREY, lw=1.0, ls="--", label="isotropic null")
        for prefix, look in (("initial_", INITIAL), ("", TRAINED)):
            points = defaultdict(list)
            for cell in cells:
                if cell.has(f"head_gradient/{prefix}{self.name}"):
                    points[share(cell)].append(cell.value(f"head_gradient/{prefix}{self.name}"))
            style.curve(axes, points, look, bounds=(0, 1))
        axes.set_xlabel("$D/V$")
        axes.xaxis.set_major_formatter(style.plain_fractions())
        axes.set_ylabel(self.label)
        axes.legend(loc="best")
        width = {c.arm: c[WIDTH] for c in data.done}
        for cell in data.absent:
            dim = data.sweep.setting(cell, WIDTH) or width.get(cell.arm)
            style.mark_missing(axes, dim / data.sweep.setting(cell, VOCAB), TRAINED, 0, 1)


class Rank:
    title = "Rank of the gradient"
    about = "numerical rank of G against the tokens of a batch; dotted: the most possible, min(tokens, V - 1)"

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result("gradient_rank/rank"))

    def draw(self, data: Data, axes: Axes) -> None:
        groups = grouped(data.with_result("gradient_rank/rank"), lambda c: c[VOCAB])
        for color, (vocab, cells) in zip(style.sequence(len(groups)), groups.items()):
            points = defaultdict(list)
            for cell in cells:
                rank = cell.array("gradient_rank/rank")
                for tokens, value in zip(rank.coords["tokens"], rank.values):
                    points[tokens].append(value)
            xs = np.array(sorted(points))
            axes.plot(xs, np.minimum(xs, vocab - 1), color=color, lw=0.9, ls=(0, (1, 1)), zorder=1)
            style.curve(axes, points, style.Look(f"$V$ = {vocab:,}", color))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("Tokens in the batch")
        axes.set_ylabel("Rank of $G$")
        style.headroom(axes, 0.34)
        axes.legend(loc="upper center", ncol=2)


class Spectrum:
    title = "Spectrum of the gradient"
    about = "singular values of G of the largest batch, means over seeds; bars at 2D, the most that one step can reach"

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result("gradient_rank/singular_values"))

    def draw(self, data: Data, axes: Axes) -> None:
        groups = grouped(data.with_result("gradient_rank/singular_values"), lambda c: (c[VOCAB], c[WIDTH]))
        top = 0.0
        for color, ((vocab, width), cells) in zip(style.sequence(len(groups)), groups.items()):
            spectra = [c.array("gradient_rank/singular_values").values for c in cells]
            mean = np.mean([s[: min(map(len, spectra))] for s in spectra], axis=0)
            component = np.arange(1, len(mean) + 1)
            axes.plot(component, mean, color=color, label=f"$V$ = {vocab:,}")
            if 2 * width <= len(mean):
                axes.plot([2 * width], [mean[2 * width - 1]], "|", color=color, ms=11, mew=1.4)
            top = max(top, mean[0])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(top * 1e-5, top * 3)
        axes.set_xlabel("Component")
        axes.set_ylabel("Singular value of $G$")
        axes.legend(loc="lower left")


class UpdateRank:
    title = "Rank of one update"
    about = "rank of the logit change of one gradient step against its bound 2D, beside the rank of G itself"

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result("update_rank/bound"))

    def draw(self, data: Data, axes: Axes) -> None:
        groups = grouped(data.with_result("update_rank/bound"), lambda c: (c[WIDTH], c[VOCAB]))
        labels = []
        for row, ((width, vocab), cells) in enumerate(groups.items()):
            labels.append(f"$D$ = {width}, $V$ = {vocab:,}" if len({w for w, _ in groups}) > 1 else f"$V$ = {vocab:,}")
            axes.plot([cells[0].value("update_rank/bound")] * 2, [row - 0.35, row + 0.35], color=style.INK, lw=0.9)
            for slot, (name, _, color, marker) in enumerate(UPDATES):
                values = [c.value(f"update_rank/{name}") for c in cells]
                style.interval_mark(axes, values, row + 0.22 * (slot - 1), color, marker)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(-0.6, len(labels) - 0.4)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("Rank")
        handles = [Line2D([], [], ls="none", marker=m, color=c, label=text) for _, text, c, m in UPDATES]
        handles.append(Line2D([], [], ls="none", marker="|", ms=9, color=style.INK, label="bound $2D$"))
        axes.legend(handles=handles, loc="best", handlelength=1)


class Efficiency:
    title = "Steps of equal norm"
    about = (
        "loss decrease of a step along the logit gradient, and of one of the same norm that a gradient step on hidden "
        "states, output matrix or both induces, at the largest V/D; arrows: the loss rises"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result("update_efficiency/decrease"))

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.largest("update_efficiency/decrease")
        rising = []
        for look, path in PATHS:
            points = defaultdict(list)
            for cell in cells:
                array = cell.array("update_efficiency/decrease" + ("_direct" if path is None else ""))
                array = array if path is None else array.at(path=path)
                for norm, value in zip(array.coords["norm"], array.values):
                    points[norm].append(value)
            means = {x: mean_interval(v).mean for x, v in points.items()}
            rising += [(x, look.color) for x, mean in means.items() if mean <= 0]
            style.curve(axes, {x: v for x, v in points.items() if means[x] > 0}, look, bounds=(1e-12, np.inf))
        axes.set_xscale("log")
        axes.set_yscale("log")
        for x, color in rising:
            axes.plot([x], [0.03], marker=r"$\downarrow$", color=color, ms=6, transform=axes.get_xaxis_transform())
        axes.set_xlabel("Norm of the logit change (rms, nats)")
        axes.set_ylabel("Loss decrease (nats)")
        axes.legend(loc="best")


class TwoDimensions:
    title = "Two dimensions suffice"
    about = "output rows on a circle, D = 2: tokens that can be put on top"

    def wanted(self, data: Data) -> bool:
        return bool(data.with_result("two_dimensions/accuracy"))

    def draw(self, data: Data, axes: Axes) -> None:
        cell = data.with_result("two_dimensions/accuracy")[0]  # a property of the construction, not of the run
        for name, look in (("accuracy", DOUBLE), ("accuracy_float32", SINGLE)):
            array = cell.array(f"two_dimensions/{name}")
            axes.plot(array.coords["vocab"], array.values, label=look.label, **look.plot())
        vocabs = array.coords["vocab"]
        style.log_ticks(axes, vocabs, style.count_labels(vocabs))
        style.percent(axes, "Top-1 accuracy (%)")
        axes.set_xlabel("Vocabulary size $V$")
        axes.legend(loc="best")


class BoundedRank:
    title = "Head of bounded rank"
    about = "validation loss while training, output matrix factorised; line: mean over seeds"

    def wanted(self, data: Data) -> bool:
        return any(c.get(HEAD_RANK) for c in data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        bounded = [c for c in data.done if c.get(HEAD_RANK)]
        widths, vocabs = ({c[path] for c in bounded} for path in (WIDTH, VOCAB))
        peers = [c for c in data.dense if c[WIDTH] in widths and c[VOCAB] in vocabs and c.has("valid/loss")]
        groups = grouped(bounded + peers, lambda c: c.get(HEAD_RANK) or c[WIDTH] + 1)
        for color, (rank, cells) in zip(style.sequence(len(groups)), groups.items()):
            full = rank > max(widths)
            style.smooth_curve(axes, common.over_training(cells), style.INK if full else color, "--" if full else "-",
                               "dense" if full else f"{rank}", band=False)  # fmt: skip
        axes.set_xlabel("Training tokens")
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_ylabel("Validation loss (nats)")
        axes.legend(loc="best", title="rank", ncol=2, title_fontsize=8)


TRAINED = style.Look("trained", style.VERMILION, "s")
INITIAL = style.Look("at initialisation", style.VERMILION, "s", filled=False, line=(0, (4, 1.6)))
DOUBLE = style.Look("float64", style.INK, "o")
SINGLE = style.Look("float32", style.PURPLE, "D", filled=False, line=(0, (4, 1.6)))
UPDATES = (
    ("rank_first_order", "update, first order", style.BLUE, "o"),
    ("rank_finite", "update, finite step", style.GREEN, "^"),
    ("rank_gradient", "gradient $G$", style.VERMILION, "s"),
)
PATHS = (
    (style.Look("logits directly", style.INK, "o"), None),
    (style.Look("both", style.BLUE, "D"), 2),
    (style.Look("output matrix", style.GREEN, "^"), 1),
    (style.Look("hidden states", style.VERMILION, "s"), 0),
)
PANELS = [
    Loss("r", "Norm lost in the head", "Lost share $r$", "share r of the norm of the logit gradient G that back-propagates to zero"),
    Loss("c", "Cosine with what is left", "Cosine $c$", "cosine c between G and its visible part; r and c are one measurement, r² + c² = 1"),
    Rank(), Spectrum(), UpdateRank(), Efficiency(), BoundedRank(), TwoDimensions(),
]  # fmt: skip


def _caption(data: Data, panels: Sequence) -> str:
    arms = ", ".join(dict.fromkeys(style.look(c.arm).label for c in data.cells))
    parts = [common.opening(data.sweep, data.cells), common.letters(panels), f"Arms: {arms}."]
    if data.absent:
        parts.append(f"Hatched: {len(data.absent)} cells without a result.")
    return " ".join(parts)
