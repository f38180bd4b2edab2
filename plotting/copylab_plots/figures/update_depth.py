"""Update depth: what a step of a given size gains through the hidden states, for models of one width and several depths."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import style
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common

LAYERS, RATIO = "model.layers", "update_efficiency/ratio_hidden"


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    groups = grouped([c for c in cells if c.done], lambda c: c[LAYERS])
    handles = [Line2D([], [], color=color, label=f"{layers} layers") for layers, color in _colors(groups)]
    figure, panels = common.draw_panels([Decrease(), Ratio()], groups, handles)
    return figure, _caption(sweep, cells, groups, panels), cells


def _colors(groups: dict[int, list[Cell]]) -> list[tuple[int, str]]:
    return list(zip(groups, style.sequence(len(groups))))


class Decrease:
    title = "Steps of equal norm"
    about = "loss decrease of a step along the logit gradient (dashed) and through the hidden states (solid)"

    def wanted(self, groups: dict[int, list[Cell]]) -> bool:
        return bool(groups)

    def draw(self, groups: dict[int, list[Cell]], axes: Axes) -> None:
        for layers, color in _colors(groups):
            cells = groups[layers]
            direct = common.over((c.array("update_efficiency/decrease_direct") for c in cells), "norm")
            hidden = common.over((c.array("update_efficiency/decrease").at(path=0) for c in cells), "norm")
            for points, line in ((direct, "--"), (hidden, "-")):
                falls = {x: v for x, v in points.items() if mean_interval(v).mean > 0}
                style.smooth_curve(axes, falls, color, line, band=False)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("Norm of the logit change (rms, nats)")
        axes.set_ylabel("Loss decrease (nats)")


class Ratio:
    title = "Direct over hidden states"
    about = "the ratio of the two at norm 0.1; dashed: √(V/D), what a random subspace would give"

    def wanted(self, groups: dict[int, list[Cell]]) -> bool:
        return bool(groups)

    def draw(self, groups: dict[int, list[Cell]], axes: Axes) -> None:
        for layers, color in _colors(groups):
            style.curve(axes, {layers: [c.value(RATIO) for c in groups[layers]]}, style.Look(f"{layers}", color))
        null = next(iter(groups.values()))[0].value("update_efficiency/ratio_null")
        axes.axhline(null, color=style.INK, lw=1.0, ls="--", zorder=1)
        style.log_ticks(axes, list(groups), [str(layers) for layers in groups])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Layers")
        axes.set_ylabel("Ratio")


def _caption(sweep: Sweep, cells: Sequence[Cell], groups: dict[int, list[Cell]], panels: Sequence) -> str:
    ratios = "; ".join(f"{layers}: {common.plus_minus([c.value(RATIO) for c in group], 1)}" for layers, group in groups.items())
    parts = [common.opening(sweep, cells), common.letters(panels), f"Ratio by layers: {ratios}." if ratios else ""]
    return " ".join(part for part in [*parts, common.closing(cells)] if part)
