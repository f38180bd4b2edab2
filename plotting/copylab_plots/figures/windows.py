"""Windows: test loss against the memory kept per token, for sliding windows with a plain and a Copy-Paste head."""

from __future__ import annotations

import math
from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common

WINDOW, LENGTH = "model.window", "task.length"
LOSS, BYTES = "test/loss", "cache/bytes_per_token"
PLAIN, COPY = style.look("vanilla"), style.look("copy_paste")
SAME_WINDOW = style.Look("at equal window", style.BLUE, "o", filled=False, line=(0, (4, 1.6)))
SAME_BYTES = style.Look("at equal memory", style.BLUE)


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, [PLAIN.handle(), COPY.handle()])


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.done = [c for c in cells if c.done and c.has(BYTES)]
        self.pairs = pairs(self.done, "copy_paste", "vanilla")

    def by_window(self, arm: str) -> dict[int, list[Cell]]:
        return grouped([c for c in self.done if c.arm == arm], lambda c: c[WINDOW])

    def plain_at(self, seed: int, memory: float) -> float | None:
        """Loss of the plain model of a seed at `memory` bytes per token: straight between its windows over the
        logarithm of the bytes, and beyond full attention as with full attention, which needs no more."""
        cells = [c for c in self.done if c.arm == "vanilla" and c.seed == seed]
        points = sorted((math.log2(c.value(BYTES)), c.value(LOSS)) for c in cells)
        if not points or math.log2(memory) < points[0][0]:
            return None
        return float(np.interp(math.log2(memory), *zip(*points)))

    def at_equal_memory(self) -> dict[int, list[float]]:
        """window -> loss of each seed's Copy-Paste model less that of its plain model of equal memory."""
        found = {}
        for window, cells in self.by_window("copy_paste").items():
            plain = [self.plain_at(c.seed, c.value(BYTES)) for c in cells]
            values = [c.value(LOSS) - other for c, other in zip(cells, plain) if other is not None]
            if values:
                found[window] = values
        return found

    def at_equal_window(self) -> dict[int, list[float]]:
        windows = grouped([c for c, _ in self.pairs], lambda c: c[WINDOW])
        return {w: differences([p for p in self.pairs if p[0][WINDOW] == w], LOSS) for w in windows}

    def against_full(self) -> list[tuple[Cell, Cell]]:
        """Copy-Paste models of window T/16 with the plain full-attention model of their seed (C9)."""
        full = {c.seed: c for c in self.done if c.arm == "vanilla" and c[WINDOW] >= c[LENGTH]}
        narrow = [c for c in self.done if c.arm == "copy_paste" and 16 * c[WINDOW] == c[LENGTH]]
        return [(c, full[c.seed]) for c in narrow if c.seed in full]


# ---- panels --------------------------------------------------------------------------------------------------


class Frontier:
    title = "Loss against memory"
    about = "labels: window w in tokens"
    room = style.Room(right_axis=True)

    def wanted(self, data: Data) -> bool:
        return bool(data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        axes.set_xscale("log", base=2)
        labels = []
        for look, below in ((PLAIN, False), (COPY, True)):
            arm = "copy_paste" if below else "vanilla"
            points = {}
            for window, cells in data.by_window(arm).items():
                memory = cells[0].value(BYTES)
                points[memory] = [c.value(LOSS) for c in cells]
                text = f"{window}" if len(points) > 1 else f"$w$ = {window}"
                labels.append((memory, mean_interval(points[memory]).mean, text, look.color, below))
            style.curve(axes, points, look)
        for x, y, text, color, below in labels:
            axes.annotate(text, (x, y), (-4, -4) if below else (4, 4), textcoords="offset points", size=7.5, color=color,
                          ha="right" if below else "left", va="top" if below else "bottom")  # fmt: skip
        axes.margins(x=0.1, y=0.16)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Memory (bytes per token)")
        axes.set_ylabel("Test loss (nats)")
        right = axes.secondary_yaxis("right", functions=(np.exp, lambda p: np.log(np.maximum(p, 1e-9))))
        right.set_ylabel("Perplexity")


class Gain:
    title = "What the copy head adds"
    about = (
        "test loss of the Copy-Paste model less that of the plain model of the same window, and less that of a plain model "
        "of the same memory, interpolated between the windows of (a)"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.at_equal_window())

    def draw(self, data: Data, axes: Axes) -> None:
        points = (data.at_equal_window(), data.at_equal_memory())
        windows = sorted({w for found in points for w in found})
        style.log_ticks(axes, windows, [str(w) for w in windows])
        for look, found in zip((SAME_WINDOW, SAME_BYTES), points):
            style.curve(axes, found, look)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        absent = [c for c in data.cells if not c.done and c.get(WINDOW)]
        for cell in absent:
            style.mark_missing(axes, cell.get(WINDOW), style.look(cell.arm), int(cell.arm == "copy_paste"), 2)
        axes.set_xlabel("Window $w$ (tokens)")
        axes.set_ylabel("Difference of test loss (nats)")
        style.headroom(axes, 0.2)
        axes.legend(loc="upper center", ncol=2, handlelength=1.8, columnspacing=1.0)


PANELS = [Frontier(), Gain()]


# ---- caption -------------------------------------------------------------------------------------------------


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    equal = data.at_equal_memory()
    if equal:
        below = [str(w) for w, values in equal.items() if mean_interval(values).mean < 0]
        sure = [w for w, values in equal.items() if mean_interval(values).high < 0]
        parts.append(
            f"The Copy-Paste model lies below the plain curve at equal memory for {len(below)} of {len(equal)} windows"
            + (f" (w = {', '.join(below)})" if below else "")
            + (f", with an interval below 0 for {len(sure)}." if all(len(values) > 1 for values in equal.values()) else ".")
        )
    parts += [_against_full(data), common.closing(data.cells)]
    return " ".join(part for part in parts if part)


def _against_full(data: Data) -> str:
    found = data.against_full()
    if not found:
        return ""
    cell, full = found[0]
    length, window, layers = cell[LENGTH], cell[WINDOW], cell["model.layers"]
    formula = 2 * layers * length / (2 * layers * window + length)
    return (
        f"Copy-Paste with w = T/16 = {window} less plain with full attention: {common.plus_minus(differences(found, LOSS), 3, sign=True)} "
        f"nats (n = {len(found)}) with {full.value(BYTES) / cell.value(BYTES):.2f} times less memory at T = {length} "
        f"(2LT/(2Lw + T) = {formula:.2f})."
    )
