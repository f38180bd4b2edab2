"""Pointer Sentinel LSTM against plain LSTMs: validation loss over training, and perplexity against the plain one's."""

from __future__ import annotations

import math
from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common

CORPUS, LOSS, CACHE = "task.corpus", "test/loss", "neural_cache/gain"
MAIN = "wikitext-2"  # the corpus that is shown first
PLAIN, PSM, LARGE = "lstm", "psm", "lstm_large"


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    handles = [style.look(arm).handle() for arm in (PLAIN, PSM, LARGE)]
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, handles)


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.done = [c for c in cells if c.done]
        found = grouped(self.done, lambda c: c[CORPUS])
        self.corpora = dict(sorted(found.items(), key=lambda item: item[0] != MAIN))

    def rows(self) -> list[tuple[str, list[float], style.Look]]:
        """What was changed, its perplexity over the plain LSTM's less 1, and how it looks."""
        rows = []
        for corpus, cells in self.corpora.items():
            for arm in (PSM, LARGE):
                found = relative(differences(pairs(cells, arm, PLAIN), LOSS))
                if found:
                    rows.append((f"{style.look(arm).label}, {corpus}", found, style.look(arm)))
            cached = relative([-c.value(CACHE) for c in cells if c.arm == PLAIN and c.has(CACHE)])
            if cached:
                rows.append((f"neural cache, {corpus}", cached, style.Look("", style.GREY, "P")))
        return rows


def relative(losses: Sequence[float]) -> list[float]:
    """Differences of losses as relative changes of the perplexity, in percent."""
    return [100 * math.expm1(d) for d in losses]


class Training:
    title = "Validation loss"
    about = "loss while training, on WikiText-2"

    def wanted(self, data: Data) -> bool:
        return bool(data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        cells = next(iter(data.corpora.values()))
        for arm, own in grouped(cells, lambda c: c.arm).items():
            style.smooth_curve(axes, common.over_training(own), style.look(arm).color)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Training tokens")
        axes.set_ylabel("Validation loss (nats)")


class Change:
    title = "Test perplexity"
    about = "relative to the plain LSTM of the same seed; grey: a neural cache on top of it, tuned on the validation split"

    def wanted(self, data: Data) -> bool:
        return bool(data.rows())

    def draw(self, data: Data, axes: Axes) -> None:
        rows = data.rows()
        common.rows_axis(axes, ["" for _ in rows], reference=0)
        for i, (label, values, look) in enumerate(rows):
            y = len(rows) - 1 - i
            style.interval_mark(axes, values, y, look.color, look.marker)
            axes.annotate(label, (mean_interval(values).mean, y), (0, 6), textcoords="offset points", ha="center", size=7,
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # fmt: skip
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.3)
        axes.set_xlabel("Change of perplexity (%)")


PANELS = [Training(), Change()]


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    for corpus, cells in data.corpora.items():
        of_arm = grouped(cells, lambda c: c.arm)
        words = ", ".join(
            f"{style.look(arm).label} {common.plus_minus([math.exp(c.value(LOSS)) for c in own], 1)}"
            for arm, own in of_arm.items()
        )
        parts.append(f"Test perplexity on {corpus}: {words}.")
        change = relative(differences(pairs(cells, PSM, PLAIN), LOSS))
        if change:
            parts.append(f"Pointer sentinel: {common.plus_minus(change, 1, sign=True)} % ({common.p_value(change)}).")
    parts.append(common.closing(data.cells))
    return " ".join(part for part in parts if part)
