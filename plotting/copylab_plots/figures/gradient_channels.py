"""Gradient channels: what passes of the gradient of logits and of pointer scores, by position and over training."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

WIDTH, VOCAB = "model.dim", "task.vocab"
KEPT, RANDOM = "copy_gradient/kept", "copy_gradient/random"
DASHES, DOTS = (0, (4, 1.6)), (0, (1, 1.2))
THRESHOLDS = style.sequence(3)
DEFINITIONS = {  # of papers 2.9, by the name that the measure gives them
    "exact": style.Look("exact rank", style.INK, "o"),
    "tau_1": style.Look("singular values > 1 %", THRESHOLDS[0], "^"),
    "tau_5": style.Look("> 5 %", THRESHOLDS[1], "v"),
    "tau_10": style.Look("> 10 %", THRESHOLDS[2], "D"),
    "transmission": style.Look("transmission", style.VERMILION, "s"),
}


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    data = Data(cells)
    handles = [look.handle() for look in DEFINITIONS.values()]
    handles.append(style.Line2D([], [], color=style.GREY, ls=DASHES, label="Gaussian matrix"))
    figure, panels = common.draw_panels(PANELS, data, handles)
    return figure, _caption(sweep, data, panels), cells


class Data:
    def __init__(self, cells: Sequence[Cell]):
        self.cells = cells
        self.done = [c for c in cells if c.done]
        self.copying = [c for c in self.done if c.has("copy_gradient/query_exact_mean")]

    def over_training(self, address: str, cells: Sequence[Cell] | None = None) -> list[Cell]:
        return [c for c in (self.done if cells is None else cells) if c.has(address)]


class Channel:
    """Kept share against position, of one path and all definitions."""

    def __init__(self, path: str, title: str, about: str, xlabel: str):
        self.path, self.title, self.about, self.xlabel = path, title, about, xlabel

    def wanted(self, data: Data) -> bool:
        return bool(data.copying)

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.copying
        axes.set_xscale("log", base=2)
        for name, look in DEFINITIONS.items():
            for address, solid in ((RANDOM, False), (KEPT, True)):
                points = common.over((c.array(address).at(path=self.path, definition=name) for c in cells), "position")
                if solid:
                    style.curve(axes, points, look, bounds=(0, 1))
                elif name in ("exact", "transmission"):
                    xs = sorted(points)
                    axes.plot(xs, [mean_interval(points[x]).mean for x in xs], color=look.color, ls=DASHES, lw=1.0, zorder=1)
        axes.set_ylim(-0.03, 1.05)
        if self.path == "lm":
            top = max(np.nanmax(c.array(a).at(path="lm").values) for c in cells for a in (KEPT, RANDOM))
            axes.set_ylim(0, min(1.05, 1.25 * top))
        for width in sorted({c[WIDTH] for c in cells}) if self.path == "query" else ():
            axes.axvline(width, color=style.GREY, lw=0.8, ls=DOTS, zorder=0)
            axes.annotate("$D$", (width, 1), (2, -2), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                          ha="left", va="top", size=8, color=style.GREY)  # fmt: skip
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel(self.xlabel)
        axes.set_ylabel("Share of the norm kept")


class Training:
    """A number of the LM head over training, both arms, with its isotropic null."""

    def __init__(self, name: str, title: str, label: str, about: str):
        self.name, self.title, self.label, self.about = name, title, label, about
        self.address = f"head_gradient/training/{name}"

    def wanted(self, data: Data) -> bool:
        return bool(data.over_training(self.address))

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.over_training(self.address)
        for i, arm in enumerate(dict.fromkeys(c.arm for c in cells)):
            points = common.over((c.array(self.address) for c in cells if c.arm == arm), "step")
            style.curve(axes, points, style.look(arm, spare=i))
        null = mean_interval([c.value(f"head_gradient/{self.name}_null") for c in cells]).mean
        axes.axhline(null, color=style.GREY, lw=1.0, ls="--", zorder=1)
        axes.annotate("isotropic null", (1, null), (0, 2), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                      ha="right", va="bottom", size=8, color=style.GREY)  # fmt: skip
        _steps(axes)
        axes.set_ylabel(self.label)
        axes.margins(y=0.25)
        axes.legend(loc="best", handlelength=1.8)


class QueryTraining:
    title = "Query path over training"
    about = "share that the query path keeps, mean over the positions of (a)"
    address = "copy_gradient/training/kept"

    def wanted(self, data: Data) -> bool:
        return bool(data.over_training(self.address, data.copying))

    def draw(self, data: Data, axes: Axes) -> None:
        for name, look in DEFINITIONS.items():
            points: dict[float, list[float]] = {}
            for cell in data.over_training(self.address, data.copying):
                part = cell.array(self.address).at(path="query", definition=name)
                for step, row in zip(part.coords["step"], part.values):
                    points.setdefault(step, []).append(float(np.nanmean(row)))
            style.curve(axes, points, look, bounds=(0, 1))
        _steps(axes)
        axes.set_ylim(-0.03, 1.05)
        axes.set_ylabel("Share of the norm kept")


def _steps(axes: Axes) -> None:
    """Step 0 stands left of step 1, the rest on a logarithmic axis."""
    axes.set_xscale("symlog", base=10, linthresh=1, linscale=0.4)
    axes.set_xlim(-0.4, axes.dataLim.x1 * 1.3)
    axes.xaxis.set_major_formatter(style.plain_numbers())
    axes.set_xlabel("Training step")


class AtStart:
    """The lost share and the cosine of the LM head of models that were measured once, beside their isotropic null."""

    title = "LM head, all positions"
    about = "share r of the norm of the logit gradient that the LM head loses and its cosine c with what is left, before any training"

    def wanted(self, data: Data) -> bool:
        return bool(data.done) and not data.over_training("head_gradient/training/r") and all(c.has("head_gradient/r") for c in data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        for y, name in ((1, "r"), (0, "c")):
            values = [[c.value(f"head_gradient/{name}{kind}") for c in data.done] for kind in ("", "_null")]
            axes.plot([mean_interval(values[1]).mean] * 2, [y - 0.3, y + 0.3], color=style.GREY, lw=2.2, zorder=1)
            style.interval_mark(axes, values[0], y, style.BLUE, "o")
            axes.annotate(f"{mean_interval(values[0]).mean:.4f} (null {mean_interval(values[1]).mean:.4f})",
                          (mean_interval(values[0]).mean, y), (-5 if name == "r" else 5, -12), textcoords="offset points",
                          ha="right" if name == "r" else "left", va="top", size=8)  # fmt: skip
        common.rows_axis(axes, ["lost\nshare $r$", "cosine\n$c$"])
        axes.set_xlim(-0.03, 1.05)
        axes.set_xlabel("Share of the norm; cosine")
        common.legend_on_top(axes, [common.mark("measured", style.BLUE, "o"),
                                    style.Line2D([], [], color=style.GREY, lw=2.2, label="isotropic null")])  # fmt: skip


PANELS = [
    Channel("query", "Query path", "from the scores of position t to its own hidden state", "Tokens in the context"),
    Channel("key", "Key path", "from the scores that key j gets from position j and all later ones to its hidden state", "Position of the key"),
    Channel("lm", "LM head", "from the logits to the hidden state, cross-entropy of the LM head", "Tokens in the context"),
    AtStart(),
    QueryTraining(),
    Training("r", "Lost in the LM head", "Lost share $r$", "share r of the norm of the logit gradient that the LM head loses, over all positions"),
    Training("c", "Cosine in the LM head", "Cosine $c$", "its cosine c with what is left, r² + c² = 1"),
]  # fmt: skip


def _caption(sweep: Sweep, data: Data, panels: Sequence) -> str:
    vocabs = ", ".join(f"{v:,}" for v in sorted({c[VOCAB] for c in data.done}))
    return " ".join(
        [
            common.opening(sweep, data.cells),
            f"Vocabulary {vocabs}.",
            "Kept: norm of the projection of the gradient g on the left singular vectors of the Jacobian A whose singular "
            "values exceed 0.0001 % (exact rank), 1, 5 or 10 % of the largest, over the norm of g; transmission: "
            "|g A| / (‖A‖ |g|). Dashed: a Gaussian matrix of the same shape, exact rank and transmission. Dotted: D tokens.",
            common.letters(panels),
            common.closing(data.cells),
        ]
    ).strip()
