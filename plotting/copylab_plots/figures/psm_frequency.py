"""Which words a pointer sentinel predicts better: by training frequency, by where a word was read, by distance."""

from __future__ import annotations

from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep
from ..stats import mean_interval, rank_correlation
from . import common

PLAIN, PSM = "lstm", "psm"
LOOK = style.look(PSM)
REACHES = ("near", "far", "never")


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption)


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.pairs = pairs(cells, PSM, PLAIN)
        self.pointers = [c for c in cells if c.done and c.has("pointer_distance/right_mass")]
        # Without any position whose whole window lies in the text there is nothing to show.
        self.pointers = [c for c in self.pointers if np.isfinite(c.array("pointer_distance/right_mass").values).all()]

    def by_bucket(self) -> dict[int, list[float]]:
        """Number of the part, from 1 for the most frequent words, -> what each seed's pointer takes off the loss."""
        gains = [
            plain.array("word_frequency/loss_by_bucket").values - psm.array("word_frequency/loss_by_bucket").values
            for psm, plain in self.pairs
        ]
        return {i + 1: [float(g[i]) for g in gains] for i in range(len(gains[0]) if gains else 0)}

    def by_reach(self, rare: bool) -> dict[str, list[float]]:
        name = f"word_frequency/{'rare_' if rare else ''}loss_"
        gains = {r: [-d for d in differences(self.pairs, name + r)] for r in REACHES}
        return {r: [g for g in values if np.isfinite(g)] for r, values in gains.items()}


class Frequency:
    title = "Gain by frequency"
    about = (
        "loss of the plain LSTM less that of the pointer sentinel, in ten parts of the test targets of equal size, the most "
        "frequent words first"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.by_bucket())

    def draw(self, data: Data, axes: Axes) -> None:
        points = data.by_bucket()
        style.curve(axes, points, LOOK)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_xticks(list(points))
        axes.set_xlabel("Part (1 = most frequent words)")
        axes.set_ylabel("Gain (nats)")


class Reaches:
    title = "Gain by where it was read"
    about = (
        "the same by where the word was last read: near (within the window), far, or never; filled: words of at most five "
        "training occurrences, open: all words"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs)

    def draw(self, data: Data, axes: Axes) -> None:
        common.rows_axis(axes, REACHES, reference=0)
        for i, reach in enumerate(REACHES):
            for rare, shift in ((True, 0.14), (False, -0.14)):
                values = data.by_reach(rare)[reach]
                if values:
                    look = (style.GREEN, "D") if rare else (style.GREY, "o")
                    style.interval_mark(axes, values, len(REACHES) - 1 - i + shift, *look, filled=rare)
        axes.set_xlabel("Gain (nats)")


class Distance:
    title = "Where the pointer points"
    about = (
        "copied probability per position where that holds the target, in tenths of the window; dotted: if the pointer spread the same "
        "mass evenly"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.pointers)

    def draw(self, data: Data, axes: Axes) -> None:
        for name, look in (("right_mass", LOOK), ("even_mass", LOOK.variant("spread evenly", "."))):
            arrays = [c.array(f"pointer_distance/{name}") for c in data.pointers]
            points = {x: [100 * v for v in values] for x, values in common.over(arrays, "distance").items()}
            style.curve(axes, points, look)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Distance (words), up to")
        axes.set_ylabel("Probability (%)")


PANELS = [Frequency(), Reaches(), Distance()]


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    buckets = data.by_bucket()
    if buckets:
        means = [mean_interval(values).mean for values in buckets.values()]
        parts.append(f"Rank correlation of the mean gain with rarity: {rank_correlation(list(buckets), means):.2f}.")
    gains = data.by_reach(rare=True)
    words = [f"{r} {common.plus_minus(gains[r], 2, sign=True)}" for r in REACHES if gains[r]]
    if words:
        parts.append(f"Gain on rare words, last read {', '.join(words)} nats.")
    parts.append(common.closing(data.cells))
    return " ".join(part for part in parts if part)
