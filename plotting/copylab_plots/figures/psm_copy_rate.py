"""What a pointer sentinel gains against how much there is to copy: synthetic streams."""

from __future__ import annotations

import math
from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

RATE, PLAIN, PSM = "task.copy_rate", "lstm", "psm"
LOOK = style.look(PSM)
SLICES = {
    "copied": style.Look("copied", style.BLUE, "o"),
    "new": style.Look("new", style.GREY, "s"),
    "rare": style.Look("rare and new", style.PURPLE, "v"),
}
REACH = {"g_copyable": style.Look("target in reach", style.BLUE, "o"), "g_new": style.Look("not in reach", style.GREY, "s")}


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption)


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.pairs = pairs(cells, PSM, PLAIN)
        self.pointers = [c for c in cells if c.done and c.arm == PSM]

    def gains(self, part: str = "") -> dict[float, list[float]]:
        """copy rate -> what the pointer takes off the loss, of all targets or of one slice."""
        found: dict[float, list[float]] = {}
        for pair in self.pairs:
            value = (lambda c: common.by_slice(c, "test/loss_by_slice", part)) if part else "test/loss"
            gain = -differences([pair], value)[0]
            if math.isfinite(gain):
                found.setdefault(100 * pair[0][RATE], []).append(gain)
        return found


def _x_axis(axes: Axes) -> None:
    axes.set_xlabel("Words in phrases that come again (%)")


class Gain:
    title = "Gain"
    about = "test loss of the plain LSTM less that of the pointer sentinel"

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs)

    def draw(self, data: Data, axes: Axes) -> None:
        style.curve(axes, data.gains(), LOOK)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_ylabel("Gain (nats)")
        _x_axis(axes)


class Slices:
    title = "Gain by kind of target"
    about = "the same by whether the target can be copied; of the others, rare words apart"

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs)

    def draw(self, data: Data, axes: Axes) -> None:
        for part, look in SLICES.items():
            style.curve(axes, data.gains(part), look)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_ylabel("Gain (nats)")
        style.headroom(axes, 0.16)
        axes.legend(loc="upper center", ncol=3, handlelength=1.4, columnspacing=0.8, fontsize=7.5)
        _x_axis(axes)


class Gate:
    title = "The vocabulary's share"
    about = "mean g of positions whose target is in reach of the pointer, or is not"

    def wanted(self, data: Data) -> bool:
        return any(c.has("pointer_distance/g") for c in data.pointers)

    def draw(self, data: Data, axes: Axes) -> None:
        for name, look in REACH.items():
            cells = [c for c in data.pointers if c.has(f"pointer_distance/{name}")]
            values = common.per_seed(cells, lambda c: 100 * c[RATE], lambda c: c.value(f"pointer_distance/{name}"))
            style.curve(axes, values, look, bounds=(0, 1))
        style.percent(axes, "g (%)")
        style.headroom(axes, 0.16)
        axes.legend(loc="upper center", ncol=2, handlelength=1.6, columnspacing=1.0)
        _x_axis(axes)


PANELS = [Gain(), Slices(), Gate()]


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    gains = data.gains()
    if gains:
        words = ", ".join(f"{rate:.0f} %: {common.plus_minus(gains[rate], 3, sign=True)}" for rate in sorted(gains))
        means = [mean_interval(gains[rate]).mean for rate in sorted(gains)]
        grows = all(a < b for a, b in zip(means, means[1:]))
        parts.append(f"Gain in nats by copy rate: {words}; it {'grows' if grows else 'does not always grow'} with the rate.")
    none = [math.expm1(-g) * 100 for g in gains.get(0.0, [])]
    if none:
        parts.append(f"Without copies the perplexity changes by {common.plus_minus(none, 2, sign=True)} %.")
    parts.append(common.closing(data.cells))
    return " ".join(part for part in parts if part)
