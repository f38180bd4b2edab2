"""How far back a pointer sentinel needs to look: loss and time against the window."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep
from . import common

WINDOW, PLAIN = "head.window", "lstm"
LOOK = style.look("psm")
STEP, ALONE = style.Look("training step", style.GREEN, "D"), style.Look("pointer alone", style.PURPLE, "v")


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption)


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.pointers = [c for c in cells if c.done and c.arm != PLAIN]

    def gains(self) -> dict[int, list[float]]:
        """window -> what it takes off the plain LSTM's loss, one number a seed."""
        found = {}
        for arm in {c.arm for c in self.pointers}:
            for pair in pairs(self.cells, arm, PLAIN):
                found.setdefault(pair[0][WINDOW], []).extend(-d for d in differences([pair], "test/loss"))
        return found


class Gain:
    title = "Gain"
    about = "test loss of the plain LSTM less that of the pointer sentinel with a window of L words"

    def wanted(self, data: Data) -> bool:
        return bool(data.gains())

    def draw(self, data: Data, axes: Axes) -> None:
        points = data.gains()
        style.log_ticks(axes, sorted(points), [str(w) for w in sorted(points)])
        style.curve(axes, points, LOOK)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_xlabel("Window $L$ (words)")
        axes.set_ylabel("Gain (nats)")


class Time:
    title = "Cost"
    about = "shortest training step over that with a plain head"

    def wanted(self, data: Data) -> bool:
        return any(c.has("overhead/time_ratio") for c in data.pointers)

    def draw(self, data: Data, axes: Axes) -> None:
        cells = [c for c in data.pointers if c.has("overhead/time_ratio")]
        points = common.per_seed(cells, lambda c: c[WINDOW], lambda c: c.value("overhead/time_ratio"))
        style.log_ticks(axes, sorted(points), [str(w) for w in sorted(points)])
        style.curve(axes, points, STEP)
        axes.axhline(1, color=style.VERMILION, lw=0.9, zorder=1)
        axes.set_xlabel("Window $L$ (words)")
        axes.set_ylabel("Step time, plain = 1")


class Alone:
    title = "The pointer alone"
    about = "time of its forward pass per position; grey: in proportion to L"

    def wanted(self, data: Data) -> bool:
        return any(c.has("pointer_time/microseconds") for c in data.pointers)

    def draw(self, data: Data, axes: Axes) -> None:
        arrays = [c.array("pointer_time/microseconds") for c in data.pointers if c.has("pointer_time/microseconds")]
        points = common.over(arrays, "window")
        windows = sorted(points)
        style.log_ticks(axes, windows, [f"{w:.0f}" for w in windows])
        axes.set_yscale("log")
        least = {w: [min(points[w])] for w in windows}
        style.curve(axes, least, ALONE)
        first = least[windows[0]][0]
        axes.plot(windows, [first * w / windows[0] for w in windows], color=style.GREY, lw=0.9, ls="--", zorder=1)
        axes.set_xlabel("Window $L$ (words)")
        axes.set_ylabel("Time (µs per position)")
        axes.yaxis.set_major_locator(LogLocator(base=2))
        axes.yaxis.set_major_formatter(style.plain_fractions())
        axes.yaxis.set_minor_locator(NullLocator())


PANELS = [Gain(), Time(), Alone()]


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    gains = data.gains()
    if gains:
        words = ", ".join(f"{w}: {common.plus_minus(gains[w], 3, sign=True)}" for w in sorted(gains))
        parts.append(f"Gain in nats by window: {words}.")
    exponents = [c.value("pointer_time/exponent") for c in data.pointers if c.has("pointer_time/exponent")]
    if exponents:
        parts.append(f"The pointer's time grows as L to the power of {common.plus_minus(exponents, 2)}.")
    parts.append(common.closing(data.cells))
    return " ".join(part for part in parts if part)
