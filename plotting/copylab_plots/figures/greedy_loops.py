"""Greedy loops: how much greedy continuations repeat themselves, by arm and by the LM head's least share."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    arms = grouped([c for c in cells if c.done], lambda c: c.arm)
    handles = [style.look(arm, spare=i).handle() for i, arm in enumerate(arms)]
    figure, panels = common.draw_panels([Repeated(), Loops()], arms, handles)
    parts = [common.opening(sweep, cells), common.letters(panels), _rates(arms), common.closing(cells)]
    return figure, " ".join(part for part in parts if part), cells


class Repeated:
    title = "Repeated n-grams"
    about = (
        "share of the n-grams of a greedy continuation that occurred in it before; black: of the text's own continuation"
    )

    def wanted(self, arms: dict[str, list[Cell]]) -> bool:
        return bool(arms)

    def draw(self, arms: dict[str, list[Cell]], axes: Axes) -> None:
        for i, (arm, cells) in enumerate(arms.items()):
            arrays = (c.array("generation/repeated").at(lm_floor=0) for c in cells)
            style.curve(axes, common.over(arrays, "ngram"), style.look(arm, spare=i), bounds=(0, 1))
        own = common.over([next(iter(arms.values()))[0].array("generation/repeated_text")], "ngram")
        axes.plot(list(own), [values[0] for values in own.values()], color=style.INK, lw=1.0, ls="--")
        style.percent(axes, "Repeated (%)")
        axes.set_xticks([1, 2, 3, 4])
        axes.set_xlabel("n")


class Loops:
    title = "Loops"
    about = "share of continuations that end in a loop, against the least share of the LM head in the mixture"

    def wanted(self, arms: dict[str, list[Cell]]) -> bool:
        return bool(arms)

    def draw(self, arms: dict[str, list[Cell]], axes: Axes) -> None:
        for i, (arm, cells) in enumerate(arms.items()):
            loops = common.over((c.array("generation/loops") for c in cells), "lm_floor")
            style.curve(axes, loops, style.look(arm, spare=i), bounds=(0, 1))
        style.percent(axes, "Continuations (%)")
        axes.set_xlabel("Least share of the LM head")


def _rates(arms: dict[str, Sequence[Cell]]) -> str:
    def rate(cells: Sequence[Cell]) -> float:
        return 100 * mean_interval([c.value("generation/loop_rate") for c in cells]).mean

    return "".join(f"{style.look(arm).label}: {rate(cells):.0f} % loops. " for arm, cells in arms.items()).strip()
