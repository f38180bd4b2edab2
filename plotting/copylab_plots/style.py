"""House style: backend, fonts, palette and the look of each arm; every figure gets its looks from here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Iterable, Sequence

import matplotlib

matplotlib.use("Agg")  # the only place: figures never need a display

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator, PercentFormatter

from .stats import mean_interval

# Okabe and Ito's palette, told apart with any colour vision and in grey print by their markers.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#AA4499"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
INK, GREY, FAINT = "#222222", "#777777", "#E4E4E4"

TEXT_WIDTH = 6.75  # inches: the text block of a conference paper; a column is half of it
PANEL_HEIGHT = 1.95

RC = {
    "font.family": "STIXGeneral",  # ships with matplotlib, so that bytes do not depend on installed fonts
    "mathtext.fontset": "stix",
    "font.size": 8.5,
    "axes.labelsize": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.2,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "hatch.linewidth": 0.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "copylab",
    "savefig.dpi": 300,
}


def house_style():
    """Context in which figures are drawn and saved; matplotlib's settings outside stay as they are."""
    return plt.style.context(["default", RC])


@dataclass(frozen=True)
class Look:
    """How one line of a figure looks, the same in every figure."""

    label: str
    color: str
    marker: str = "o"
    filled: bool = True
    line: str = "-"

    def variant(self, what: str, marker: str) -> Look:
        """The same arm under another condition: same colour, dotted."""
        return replace(self, label=f"{self.label}, {what}", marker=marker, filled=True, line=":")

    def handle(self) -> Line2D:
        return Line2D([], [], label=self.label, **self.plot())

    def plot(self) -> dict:
        return {
            "color": self.color,
            "linestyle": self.line,
            "marker": self.marker,
            "markerfacecolor": self.color if self.filled else "white",
            "markeredgecolor": self.color,
            "markeredgewidth": 1.0,
        }


_ARMS = {
    "vanilla": ("Vanilla LM", VERMILION, "s"),
    "copy_paste": ("Copy-Paste LM", BLUE, "o"),
    "psm": ("Pointer Sentinel", GREEN, "D"),
    "lstm": ("LSTM", VERMILION, "s"),
    "lstm_large": ("LSTM, larger", ORANGE, "^"),
    "forward_rank": ("Factorised head (forward rank)", PURPLE, "v"),
    "backward_rank": ("Backward-only rank", GREEN, "^"),
    "detach_q": ("Copy-Paste, queries blocked", SKY, "v"),
    "detach_k": ("Copy-Paste, keys blocked", ORANGE, "^"),
    "detach_both": ("Copy-Paste, both blocked", PURPLE, "D"),
    "detach_gate": ("Copy-Paste, gate blocked", GREEN, "P"),
    "plain": ("Plain", VERMILION, "s"),
    "plain_wide": ("Plain, as many weights", ORANGE, "v"),
    "pause": ("Pause tokens", GREEN, "D"),
    "meta": ("Meta-attention", BLUE, "o"),
    "wrong": ("Meta-attention, wrong places", PURPLE, "v"),
    "meta_third": ("Meta-attention, a third of the text", SKY, "^"),
    "meta_copy_paste": ("Copy-Paste LM with meta-attention", PURPLE, "D"),
    "plain_learned": ("Plain, learned positions", PURPLE, "X"),
    "meta_learned": ("Meta-attention, learned positions", SKY, "P"),
    "detach_lm": ("Copy-Paste, LM head blocked", BLACK, "X"),
}
_SPARE = ((GREEN, "D"), (PURPLE, "v"), (ORANGE, "^"), (SKY, "P"), (BLACK, "X"))


def look(arm: str, tied: bool | None = None, spare: int = 0) -> Look:
    """The look of an arm: its colour and marker say which, filled and solid mean tied embeddings. An arm
    without a look of its own takes number `spare` of the free ones."""
    for suffix, meaning in (("_untied", False), ("_tied", True)):
        if arm.endswith(suffix):
            arm, tied = arm[: -len(suffix)], meaning
            break
    label, color, marker = _ARMS.get(arm, (arm.replace("_", " "), *_SPARE[spare % len(_SPARE)]))
    if tied is None:
        return Look(label, color, marker)
    return Look(f"{label}, {'tied' if tied else 'untied'}", color, marker, tied, "-" if tied else (0, (4, 1.6)))


# ---- a page of panels ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Room:
    """What a panel needs around it."""

    top_axis: bool = False
    right_axis: bool = False
    note_row: bool = False  # a line of values below the tick labels


def page(rooms: Sequence[Room], handles: Sequence[Line2D], columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with one legend on top and its panels in rows; output.save adds the caption below. Sizes are
    in inches, so that text and panels have the same size in every figure."""
    columns = min(columns, len(rooms))
    width = TEXT_WIDTH if columns > 1 else 0.62 * TEXT_WIDTH
    left, right, gap = 0.66, 0.12, 0.72
    panel_width = (width - left - right - (columns - 1) * gap) / columns
    rows = [rooms[i : i + columns] for i in range(0, len(rooms), columns)]
    heads = [0.42 if any(room.top_axis for room in row) else 0.24 for row in rows]
    feet = [0.60 if any(room.note_row for room in row) else 0.46 for row in rows]

    figure = plt.figure(figsize=(width, 1))
    strip = _legend(figure, handles) if handles else 0.0
    height = strip + sum(heads) + sum(feet) + len(rows) * PANEL_HEIGHT
    figure.set_size_inches(width, height)
    panels, y = [], height - strip
    for row, head, foot in zip(rows, heads, feet):
        y -= head + PANEL_HEIGHT
        for column, room in enumerate(row):
            x = left + column * (panel_width + gap)
            own_width = panel_width - (0.42 if room.right_axis else 0)
            axes = figure.add_axes([x / width, y / height, own_width / width, PANEL_HEIGHT / height])
            axes.spines["top"].set_visible(room.top_axis)
            axes.spines["right"].set_visible(room.right_axis)
            panels.append(axes)
        y -= foot
    return figure, panels


def _legend(figure: Figure, handles: Sequence[Line2D]) -> float:
    """A legend across the top, in as few rows as fit; returns its height in inches."""
    for rows in range(1, len(handles) + 1):
        columns = -(-len(handles) // rows)
        found = figure.legend(handles=list(handles), loc="upper center", ncol=columns, bbox_to_anchor=(0.5, 1.0),
                              borderaxespad=0.2, handlelength=2.0, columnspacing=1.2, handletextpad=0.4)  # fmt: skip
        extent = found.get_window_extent(figure.canvas.get_renderer())
        if extent.width < figure.bbox.width * 0.98:
            break
        found.remove()
    return extent.height / figure.dpi + 0.04


def title(axes: Axes, index: int, text: str) -> None:
    axes.set_title(f"({'abcdefghijkl'[index]})  {text}", pad=5)


def curve(axes: Axes, points: dict[float, Sequence[float]], looks: Look, dodge: float = 1.0,
          bounds: tuple[float, float] = (-math.inf, math.inf)) -> None:  # fmt: skip
    """Per-seed points, the line of means and its 95 % band, cut at `bounds`. points: x -> one value per seed.
    `dodge` moves the per-seed points sideways by a factor, for arms that lie on each other."""
    xs = sorted(x for x in points if points[x])
    if not xs:
        return
    axes.plot(xs, _banded(axes, points, xs, looks.color, bounds), zorder=4, label=looks.label, **looks.plot())
    seeds = [(x * dodge, value) for x in xs for value in points[x] if len(points[x]) > 1]
    if seeds:
        axes.plot(*zip(*seeds), linestyle="none", marker=".", markersize=3.2, markeredgewidth=0, color=looks.color, alpha=0.75, zorder=3)


def smooth_curve(axes: Axes, points: dict[float, Sequence[float]], color: str, line="-", label: str | None = None,
                 band: bool = True) -> None:  # fmt: skip
    """The line of means over seeds and its 95 % band, without markers: for series over training."""
    xs = sorted(points)
    means = _banded(axes, points, xs, color) if band else [mean_interval(points[x]).mean for x in xs]
    axes.plot(xs, means, color=color, linestyle=line, label=label, zorder=4)


def _banded(axes: Axes, points: dict[float, Sequence[float]], xs: Sequence[float], color: str,
            bounds: tuple[float, float] = (-math.inf, math.inf)) -> list[float]:  # fmt: skip
    """Draws the 95 % band, cut at `bounds`, of a single point as a bar; returns the means."""
    intervals = [mean_interval(points[x]) for x in xs]
    if any(i.n > 1 for i in intervals):
        low, high = zip(*((max(i.low, bounds[0]), min(i.high, bounds[1])) for i in intervals))
        axes.fill_between(xs, low, high, color=color, alpha=0.13, lw=0, zorder=2)
        if len(xs) == 1:
            axes.vlines(xs, low, high, color=color, alpha=0.6, lw=1.2, zorder=2)
    return [i.mean for i in intervals]


def end_labels(axes: Axes, labels: Iterable[tuple[float, float, str, str]]) -> None:
    """Names at the right ends of lines, (x, y, text, colour), moved apart where they would lie on each other.
    For when the limits are set."""
    size, scale = 7.5, 72 / axes.figure.dpi
    placed = sorted((axes.transData.transform((x, y))[1] * scale, x, y, text, color) for x, y, text, color in labels)
    heights = [height for height, *_ in placed]
    for _ in range(100):  # neighbours push each other away by half of what is missing
        for i in range(len(heights) - 1):
            missing = size * 1.08 - (heights[i + 1] - heights[i])
            if missing > 0:
                heights[i] -= missing / 2
                heights[i + 1] += missing / 2
    for height, (own, x, y, text, color) in zip(heights, placed):
        axes.annotate(text, (x, y), (4, height - own), textcoords="offset points", va="center", size=size, color=color,
                      annotation_clip=False)  # fmt: skip


def headroom(axes: Axes, share: float) -> None:
    """Raises the top of the y axis, so that this share of its height is free for a legend: no ticks, no grid."""
    axes.set_yticks([tick for tick in axes.get_yticks() if axes.get_ylim()[0] <= tick <= axes.get_ylim()[1]])
    forward, back = axes.yaxis.get_transform().transform, axes.yaxis.get_transform().inverted().transform
    low, high = forward(axes.get_ylim())
    axes.set_ylim(top=back(low + (high - low) / (1 - share)))


def mark_missing(axes: Axes, x: float, looks: Look, slot: int, slots: int) -> None:
    """A hatched mark at the foot of the panel for a cell that has no result."""
    scale = math.log if axes.get_xscale() == "log" else float
    low, high = map(scale, axes.get_xlim())
    where, width = (scale(x) - low) / (high - low), 0.022
    axes.add_patch(
        plt.Rectangle(
            (where + (slot - slots / 2) * width, 0), width, 0.1, transform=axes.transAxes, zorder=5,
            facecolor="white", edgecolor=looks.color, hatch="//////", linewidth=0.6,
        )
    )


def interval_mark(axes: Axes, values: Sequence[float], y: float, color: str, marker: str, filled: bool = True) -> None:
    """A row of a dot plot: seeds as dots, their mean as a marker on its 95 % interval."""
    mean, low, high, n = mean_interval(values)
    if n > 1:
        axes.plot([low, high], [y, y], color=color, lw=1.2, alpha=0.6, solid_capstyle="butt", zorder=2)
        axes.plot(values, [y] * n, linestyle="none", marker=".", ms=3.2, mew=0, color=color, alpha=0.75, zorder=3)
    edge = {"mec": "white", "mew": 0.5} if filled else {"mfc": "white", "mew": 1.0}
    axes.plot([mean], [y], marker=marker, color=color, ms=4.8, zorder=4, **edge)


def tick_notes(axes: Axes, notes: dict[float, str], name: str) -> None:
    """A line of small grey values under the tick labels, one per tick, with its name at the left."""
    for x, text in notes.items():
        axes.annotate(text, (x, 0), (0, -19), textcoords="offset points", xycoords=axes.get_xaxis_transform(),
                      ha="center", va="center", size=7.5, color=GREY, annotation_clip=False)  # fmt: skip
    _edge_name(axes, name, 0, -19)


def top_axis(axes: Axes, ticks: dict[float, str], name: str) -> None:
    """A second x axis above, with its name at the left."""
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(ticks), list(ticks.values()))
    above.minorticks_off()
    above.tick_params(pad=2)
    _edge_name(axes, name, 1, 8)


def _edge_name(axes: Axes, name: str, y: float, offset: float) -> None:
    axes.annotate(name, (0, y), (-6, offset), textcoords="offset points", xycoords="axes fraction", ha="right",
                  va="center", size=7.5, color=GREY, style="italic", annotation_clip=False)  # fmt: skip


def log_ticks(axes: Axes, values: Iterable[float], labels: Sequence[str]) -> None:
    """A log x axis with ticks at the measured values only."""
    values = list(values)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(values)
    axes.set_xticklabels(labels)
    pad = (max(values) / min(values)) ** 0.06 if len(values) > 1 else 2.0
    axes.set_xlim(min(values) / pad, max(values) * pad)


def percent(axes: Axes, label: str) -> None:
    """A y axis from 0 to 1, written in percent."""
    axes.set_ylim(-0.03, 1.05)
    axes.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axes.set_ylabel(label)


def count_labels(values: Sequence[float]) -> list[str]:
    """Tick labels of counts: written out, or as powers of two where that would be too wide."""
    if len(values) > 5 and all(v > 0 and float(v).is_integer() and (int(v) & (int(v) - 1)) == 0 for v in values):
        return [f"$2^{{{int(v).bit_length() - 1}}}$" for v in values]
    return [short(v) for v in values]


def short(value: float) -> str:
    """A number for a label: 16,384; 4.9; 0.63; 41 M."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.2g}"


def span(values: Iterable[float]) -> str:
    """One number, or the range of several."""
    values = list(values)
    low, high = min(values, default=0), max(values, default=0)
    return short(low) if low == high else f"{short(low)} to {short(high)}"


def sequence(count: int) -> list[str]:
    """Colours of an ordered quantity, light to dark; told apart with any colour vision."""
    cmap = matplotlib.colormaps["viridis_r"]
    return [to_hex(cmap(0.18 + 0.77 * i / max(1, count - 1))) for i in range(count)]


def plain_numbers() -> FuncFormatter:
    return FuncFormatter(lambda value, _: short(value) if value >= 1 else f"{value:g}")


def plain_fractions() -> FuncFormatter:
    """Powers of two below one as 1/64."""
    return FuncFormatter(lambda value, _: short(value) if value >= 1 else f"1/{1 / value:.0f}")
