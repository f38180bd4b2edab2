"""Sizes: what the Copy-Paste head saves and gains against the width of the model, each arm at its own learning rate."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, savings
from ..results import Cell, Sweep
from . import common
from .token_efficiency import BY_SLICE, COPY, PLAIN, WIDTH, Data, OverWidth, saving_changes, saving_text

LOSS = "test/loss"
DIFFERENCES = (  # of what, by the name of the slice
    ("", style.Look("all targets", style.INK, "o")),
    ("copyable", style.Look("copyable", style.BLUE, "s")),
    ("new", style.Look("new", style.VERMILION, "D", filled=False)),
)


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, [PLAIN.handle(), COPY.handle()])


# ---- panels --------------------------------------------------------------------------------------------------


class Saving(OverWidth):
    """As in token-efficiency, also for a single width."""

    def wanted(self, data: Data) -> bool:
        return any(savings(data.at_width(w)) for w in data.widths)


class Losses:
    title = "Loss of both arms"
    about = "test loss after the same number of tokens"

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs)

    def draw(self, data: Data, axes: Axes) -> None:
        _width_axis(data, axes)
        for look, side in ((PLAIN, 1), (COPY, 0)):
            style.curve(axes, {w: [pair[side].value(LOSS) for pair in data.at_width(w)] for w in data.widths}, look)
        axes.set_ylabel("Test loss (nats)")
        axes.margins(y=0.12)


class Gain:
    title = "What the copy head adds"
    about = (
        "test loss of the Copy-Paste model less that of the plain model of its width: of all targets, of those that occur "
        "earlier in their context (copyable) and of the others (new)"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs)

    def draw(self, data: Data, axes: Axes) -> None:
        _width_axis(data, axes)
        for part, look in DIFFERENCES:
            value = (lambda cell, part=part: common.by_slice(cell, BY_SLICE, part)) if part else LOSS
            if not part or all(cell.has(BY_SLICE) for pair in data.pairs for cell in pair):
                style.curve(axes, {w: differences(data.at_width(w), value) for w in data.widths}, look)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_ylabel("Difference of test loss (nats)")
        style.headroom(axes, 0.2)
        axes.legend(loc="upper center", ncol=3, handlelength=1.6, columnspacing=0.9)


class Rates:
    title = "Learning rates"
    about = "the rate of the lowest validation loss on the tuning seeds, of each arm and width; dots: what was tried"

    def wanted(self, data: Data) -> bool:
        return bool(data.pairs) and bool(data.sweep.select_over)

    def draw(self, data: Data, axes: Axes) -> None:
        _width_axis(data, axes)
        axes.set_yscale("log", base=2)
        rate = data.sweep.select_over
        tried = sorted({(c[WIDTH], c[rate]) for c in data.sweep if c.done})
        axes.plot(*zip(*tried), ls="none", marker=".", ms=4, color=style.GREY, zorder=1)
        for look, chosen, size in zip((PLAIN, COPY), chosen_rates(data), (9, 5)):
            axes.plot(*zip(*sorted(chosen.items())), **{**look.plot(), "markersize": size, "lw": 1.0})
        values = sorted({value for _, value in tried})
        axes.set_yticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()
        axes.set_ylabel("Learning rate")
        axes.margins(y=0.15)


PANELS = [Saving(), Gain(), Losses(), Rates()]


def _width_axis(data: Data, axes: Axes) -> None:
    style.log_ticks(axes, data.widths, [str(w) for w in data.widths])
    axes.set_xlabel("Width $D$")


def chosen_rates(data: Data) -> tuple[dict[int, float], dict[int, float]]:
    """width -> the selected value, of the plain and of the Copy-Paste arm."""
    return tuple(
        {w: found[0][side][data.sweep.select_over] for w, found in ((w, data.at_width(w)) for w in data.widths)} for side in (1, 0)
    )


# ---- caption -------------------------------------------------------------------------------------------------


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    named = [(f"D = {w}", data.at_width(w)) for w in data.widths if savings(data.at_width(w))]
    if named:
        parts.append("S and steps saved with the paired t-test: " + "; ".join(saving_text(*group) for group in named) + ".")
    parts += [_trend(data), common.closing(data.cells)]
    return " ".join(part for part in parts if part)


def _trend(data: Data) -> str:
    """S at the largest width less S at the smallest, paired over seeds (C3)."""
    if len(data.widths) < 2:
        return ""
    low, high = data.widths[0], data.widths[-1]
    values = saving_changes(data.at_width(high), data.at_width(low))
    if not values:
        return ""
    return f"S at D = {high} less S at D = {low}: {common.plus_minus(values, sign=True)} (n = {len(values)})."

