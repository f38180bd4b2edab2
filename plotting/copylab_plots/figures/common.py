"""Parts that figures share: which cells are reported, panels in order, and sentences of captions."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import style
from ..compare import training_curve
from ..results import Array, Cell, Sweep, grouped
from ..stats import mean_interval, t_test


def reported(sweep: Sweep, allow_missing: bool) -> list[Cell]:
    """The cells that a figure is about: not those that only served to choose a setting."""
    cells = [c for c in sweep if c.roles & {"best", "same"}]
    if not allow_missing:
        sweep.require(cells)
    return cells


def draw_panels(panels: Sequence, data, handles: Sequence[Line2D] = ()) -> tuple[Figure, list]:
    """The panels whose data are there, lettered. A panel has wanted(data), draw(data, axes), a title, a sentence
    `about` for the caption, and may have a room."""
    wanted = [panel for panel in panels if panel.wanted(data)]
    figure, all_axes = style.page([getattr(panel, "room", style.Room()) for panel in wanted], handles)
    for i, (panel, axes) in enumerate(zip(wanted, all_axes)):
        panel.draw(data, axes)
        style.title(axes, i, panel.title)
    return figure, wanted


def drawn(sweep: Sweep, allow_missing: bool, data_of: Callable, panels: Sequence, caption: Callable,
          handles: Sequence[Line2D] = ()) -> tuple[Figure, str, list[Cell]]:  # fmt: skip
    """What a figure's draw() returns: data_of(sweep, cells) in its panels, and caption(data, panels drawn)."""
    cells = reported(sweep, allow_missing)
    data = data_of(sweep, cells)
    figure, shown = draw_panels(panels, data, handles)
    return figure, caption(data, shown), cells


def by_slice(cell: Cell, address: str, name: str) -> float:
    """The number of one slice of the task, e.g. by_slice(cell, "test/loss_by_slice", "new")."""
    return float(cell.array(address).at(slice=name).values)


def per_seed(cells: Iterable[Cell], x: Callable[[Cell], float], y: Callable[[Cell], float]) -> dict[float, list[float]]:
    """x -> one y per cell, as style.curve takes it."""
    points = defaultdict(list)
    for cell in cells:
        points[x(cell)].append(y(cell))
    return points


def over_training(cells: Iterable[Cell], address: str = "valid/loss") -> dict[float, list[float]]:
    """tokens -> the values of all cells there, of a series such as the validation loss."""
    points = defaultdict(list)
    for cell in cells:
        for tokens, value in zip(*training_curve(cell, address)):
            points[tokens].append(value)
    return points


def over(arrays: Iterable[Array], dim: str) -> dict[float, list[float]]:
    """Arrays of one axis as axis value -> one number per array, without those that are no number."""
    points = defaultdict(list)
    for array in arrays:
        for x, y in zip(array.coords[dim], array.values):
            if math.isfinite(y):
                points[x].append(y)
    return points


def opening(sweep: Sweep, cells: Sequence[Cell]) -> str:
    """The first sentences of a caption: what, how large, how long, how many seeds."""
    done = [c for c in cells if c.done]
    parts = [f"{sweep.title}, preset {sweep.preset}."]
    if done:
        widths = ", ".join(str(w) for w in sorted({c["model.dim"] for c in done}))
        trained, before = [c.trained() for c in done], [sum(stage.trained() for stage in c.before) for c in done]
        budget = f"budget: {style.span(trained)} tokens per run" if any(trained) else "no training"
        if any(before):
            budget += f", after {style.span(before)} in the stages before"
        parts.append(f"Hidden width D = {widths}; {budget}.")
        seeds = {len(g) for g in grouped(cells, lambda c: (c.arm, *map(str, c.coordinates.values()))).values()}
        n = "–".join(str(v) for v in sorted({min(seeds), max(seeds)}))
        parts.append(f"n = {n} seed{'' if n == '1' else 's, dots are seeds, lines their mean, bands its 95 % t interval'}.")
    return " ".join(parts)


def closing(cells: Sequence[Cell]) -> str:
    """The last sentence: what is not there."""
    absent = sum(not c.done for c in cells)
    return f"{absent} cells without a result." if absent else ""


def letters(panels: Sequence) -> str:
    return " ".join(f"({'abcdefghijkl'[i]}) {panel.about}." for i, panel in enumerate(panels))


def signed(value: float, digits: int) -> str:
    """+0.12 or −0.12."""
    return f"{value:+.{digits}f}".replace("-", "−")


def plus_minus(values: Sequence[float], digits: int = 2, sign: bool = False) -> str:
    """1.23 ± 0.04: the mean and half of its 95 % t interval; the mean alone for one value."""
    mean, _, high, n = mean_interval(values)
    text = signed(mean, digits) if sign or mean < 0 else f"{mean:.{digits}f}"
    return text if n < 2 else f"{text} ± {high - mean:.{digits}f}"


def p_value(values: Sequence[float]) -> str:
    """p = 0.012, of the t-test that the mean is zero."""
    p = t_test(values)
    if math.isnan(p):
        return "no p value"
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def rows_axis(axes: Axes, labels: Sequence[str], reference: float | None = None) -> None:
    """The y axis of a dot plot with named rows, the first on top: row i is at y = len(labels) - 1 - i. There is
    room for a legend above the rows; a line at `reference` runs through them."""
    axes.set_yticks(range(len(labels) - 1, -1, -1), labels)
    axes.set_ylim(-0.6, len(labels) + 0.25)
    if reference is not None:
        axes.plot([reference] * 2, [-0.6, len(labels) - 0.45], color=style.INK, lw=0.8, zorder=1)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")


def legend_on_top(axes: Axes, handles: Sequence[Line2D]) -> None:
    """One row of marks across the top of the panel, clear of the grid."""
    axes.legend(handles=handles, loc="upper center", ncol=len(handles), handlelength=0.8, columnspacing=0.9, handletextpad=0.3,
                borderaxespad=0.1, frameon=True, facecolor="white", edgecolor="none", framealpha=1)  # fmt: skip


def mark(label: str, color: str, marker: str, filled: bool = True) -> Line2D:
    """A legend's entry for a mark without a line."""
    return style.Look(label, color, marker, filled, "none").handle()
