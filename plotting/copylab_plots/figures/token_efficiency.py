"""Token efficiency: how many fewer tokens the Copy-Paste head needs to the plain head's loss, by backbone and width."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median
from typing import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import style
from ..compare import Curve, cooldown, differences, first_at, pairs, savings, training_curve
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

BACKBONE, WIDTH, VOCAB = "model.backbone", "model.dim", "task.vocab"
NAMES = {"full": "Full attention", "hybrid": "Hybrid", "sliding": "Sliding window"}
TIME = "overhead/time_ratio"
OTHER_TEXT = "transfer/loss"
BY_SLICE = "test/loss_by_slice"

# Godey and Artzi (arXiv 2610.19247): times fewer tokens at 1.7B by backbone, and by size as D/V -> range.
PAPER_BACKBONES = {"full": 1.2, "hybrid": 1.2, "sliding": 1.5}
PAPER_SIZES = {"135M": (576 / 49152, 1.5, 1.8), "360M": (960 / 49152, 1.25, 1.5), "1.7B": (2048 / 49152, 1.2, 1.2)}

PLAIN, COPY = style.look("vanilla"), style.look("copy_paste")
ADJUSTED = style.Look("over step time", style.BLUE, "D", filled=False, line=":")


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    handles = [Line2D([], [], color=look.color, label=look.label) for look in (PLAIN, COPY)]
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, handles)


class Data:
    """Pairs of Copy-Paste and plain runs. Backbones are compared at the width that most cells have, widths with
    the backbone of most."""

    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.pairs = pairs((c for c in cells if "best" in c.roles), "copy_paste", "vanilla", sweep.select_over)
        self.width = self._most_common(WIDTH)
        self.backbone = "full" if self._of("full") else self._most_common(BACKBONE)
        self.backbones = [b for b in NAMES if self.at_backbone(b)]
        self.widths = sorted({c[WIDTH] for c, _ in self._of(self.backbone)})

    def _most_common(self, path: str):
        return next((value for value, _ in Counter(c[path] for c, _ in self.pairs).most_common(1)), None)

    def _of(self, backbone: str) -> list:
        return [pair for pair in self.pairs if pair[0][BACKBONE] == backbone]

    def at_backbone(self, backbone: str) -> list:
        return [pair for pair in self._of(backbone) if pair[0][WIDTH] == self.width]

    def at_width(self, width: int) -> list:
        return [pair for pair in self._of(self.backbone) if pair[0][WIDTH] == width]

    def groups(self) -> list[tuple[str, list]]:
        """All pairs by what they are, the backbones first."""
        found = [(NAMES[b], self.at_backbone(b)) for b in self.backbones]
        return found + [(f"D = {w}", self.at_width(w)) for w in self.widths if w != self.width]


def time_ratio(found: Sequence[tuple[Cell, Cell]]) -> float | None:
    """Step time of the Copy-Paste model over the plain one: the median over seeds, which run on the same machine."""
    ratios = [cell.value(TIME) for cell, _ in found if cell.has(TIME)]
    return median(ratios) if ratios else None


def adjusted(found: Sequence[tuple[Cell, Cell]]) -> list[float]:
    ratio = time_ratio(found)
    return [saving / ratio for saving in savings(found)] if ratio else []


def saved_steps(found: Sequence[tuple[Cell, Cell]]) -> list[float]:
    """Share of the steps to the target that are saved, per seed."""
    return [1 - 1 / saving for saving in savings(found)]


def saving_changes(found: Sequence[tuple[Cell, Cell]], reference: Sequence[tuple[Cell, Cell]]) -> list[float]:
    """S of one group of pairs less that of another, for each seed that has both."""
    own, other = ({cell.seed: savings([(cell, partner)]) for cell, partner in group} for group in (found, reference))
    return [own[s][0] - other[s][0] for s in own if own[s] and other.get(s)]


# ---- panels --------------------------------------------------------------------------------------------------


class Curves:
    """Validation loss of both arms, with the token saving as an arrow."""

    about = ""

    def __init__(self, backbone: str):
        self.backbone, self.title = backbone, NAMES[backbone]

    def wanted(self, data: Data) -> bool:
        return self.backbone in data.backbones

    def draw(self, data: Data, axes: Axes) -> None:
        found = data.at_backbone(self.backbone)
        means = {}
        for look, cells in ((PLAIN, [v for _, v in found]), (COPY, [c for c, _ in found])):
            points = common.over_training(cells)
            style.smooth_curve(axes, points, look.color)
            means[look] = Curve(sorted(points), [mean_interval(points[x]).mean for x in sorted(points)])
        last, end = cooldown(found[0][0]), means[PLAIN].tokens[-1]
        early = first_of(means[PLAIN].tokens, lambda tokens: tokens >= 0.12 * end)
        low = min(min(curve.values) for curve in means.values())
        top = means[PLAIN].values[early]
        axes.set_ylim(low - 0.08 * (top - low), top)
        axes.set_xlim(0, end * 1.02)
        axes.axvline(last, color=style.GREY, lw=0.8, ls=(0, (1, 1)), zorder=1)
        axes.annotate("cooldown", (last, 1), (2, -6), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                      size=7.5, color=style.GREY)  # fmt: skip
        self._arrow(axes, means, last, savings(found))
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Training tokens")
        axes.set_ylabel("Validation loss (nats)")

    def _arrow(self, axes: Axes, means: dict, last: float, found: Sequence[float]) -> None:
        plain, copy = means[PLAIN].until(last), means[COPY].until(last)
        if not found or not len(plain.values):
            return
        level = max(plain.values[-1], min(copy.values))
        ends = [first_at(curve, level) for curve in (copy, plain)]
        if abs(ends[1] - ends[0]) > 0.04 * plain.tokens[-1]:  # else its heads would lie on each other
            axes.annotate("", (ends[0], level), (ends[1], level), arrowprops={"arrowstyle": "<->", "color": style.INK,
                          "lw": 0.9, "shrinkA": 0, "shrinkB": 0})  # fmt: skip
        axes.annotate(f"$S$ = {mean_interval(found).mean:.2f}", (min(ends), level), (-3, -3), textcoords="offset points",
                      ha="right", va="top", size=8)  # fmt: skip


def first_of(values: Sequence[float], wanted: Callable[[float], bool]) -> int:
    return next((i for i, value in enumerate(values) if wanted(value)), 0)


class Savings:
    title = "Token saving by backbone"
    about = (
        "token saving S: tokens of the plain model up to the cooldown over those that the Copy-Paste model needs to the "
        "same validation loss; open: divided by the measured step-time ratio; bars: the paper at 1.7B"
    )

    def wanted(self, data: Data) -> bool:
        return any(savings(data.at_backbone(b)) for b in data.backbones)

    def draw(self, data: Data, axes: Axes) -> None:
        for row, backbone in enumerate(reversed(data.backbones)):
            found = data.at_backbone(backbone)
            axes.plot([PAPER_BACKBONES[backbone]] * 2, [row - 0.3, row + 0.3], color=style.GREY, lw=2.2, zorder=1)
            for values, y, look in ((savings(found), row + 0.14, COPY), (adjusted(found), row - 0.14, ADJUSTED)):
                if values:
                    style.interval_mark(axes, values, y, look.color, look.marker, look.filled)
        common.rows_axis(axes, [NAMES[b].replace(" ", "\n") for b in data.backbones], reference=1)
        axes.set_xlabel("Token saving $S$")
        common.legend_on_top(axes, _saving_handles("paper, 1.7B"))


class OverWidth:
    title = "Token saving by width"
    about = "S against D/V at equal tokens; bars: the paper's models, by their D/V"
    room = style.Room(note_row=True)

    def wanted(self, data: Data) -> bool:
        return len(data.widths) > 1

    def draw(self, data: Data, axes: Axes) -> None:
        shares = {w: w / data.at_width(w)[0][0][VOCAB] for w in data.widths}
        measured = False
        for values, look in ((savings, COPY), (adjusted, ADJUSTED)):
            points = {shares[w]: found for w in data.widths if (found := values(data.at_width(w)))}
            style.curve(axes, points, look)
            measured = bool(points)
        style.log_ticks(axes, list(shares.values()), [f"1/{1 / s:.0f}" for s in shares.values()])
        for name, (share, low, high) in PAPER_SIZES.items():
            axes.plot([share] * 2, [low - 0.008, high + 0.008], color=style.GREY, lw=2.2, solid_capstyle="butt", zorder=1)
            axes.annotate(name, (share, high), (0, 3), textcoords="offset points", ha="center", size=7.5, color=style.GREY)
        ends = [*shares.values(), *(share for share, _, _ in PAPER_SIZES.values())]
        axes.set_xlim(min(ends) / 1.25, max(ends) * 1.25)
        axes.axhline(1, color=style.INK, lw=0.8, zorder=1)
        style.tick_notes(axes, {s: f"{w}" for w, s in shares.items()}, "$D$")
        axes.set_xlabel("$D/V$", labelpad=13)
        axes.set_ylabel("Token saving $S$")
        style.headroom(axes, 0.12)
        common.legend_on_top(axes, _saving_handles("paper", measured))


class Gains:
    title = "Gain by target and text"
    about = (
        "test loss of the Copy-Paste model less that of the plain one: on targets that occur earlier in their context "
        "(copyable), on others (new), and on text of another corpus"
    )

    def wanted(self, data: Data) -> bool:
        return bool(self.kinds(data))

    def kinds(self, data: Data) -> list[tuple[str, Callable[[Cell], float], str, str, bool]]:
        """Label, value of a cell, and colour, marker and filling of its mark."""
        found = []
        if data.pairs and all(cell.has("test/loss_by_slice") for cell, _ in data.pairs):
            found.append(("copyable", lambda cell: common.by_slice(cell, BY_SLICE, "copyable"), style.BLUE, "o", True))
            found.append(("new", lambda cell: common.by_slice(cell, BY_SLICE, "new"), style.BLUE, "s", False))
        if data.pairs and all(cell.has(OTHER_TEXT) for pair in data.pairs for cell in pair):
            corpus = data.pairs[0][0].get("measure.transfer.corpus", "other text")
            found.append((corpus, lambda cell: cell.value(OTHER_TEXT), style.GREEN, "D", True))
        return found

    def draw(self, data: Data, axes: Axes) -> None:
        groups = [(name, found) for name, found in data.groups() if found]
        kinds = self.kinds(data)
        for row, (_, found) in enumerate(reversed(groups)):
            for slot, (_, value, *mark) in enumerate(kinds):
                style.interval_mark(axes, differences(found, value), row + 0.22 * ((len(kinds) - 1) / 2 - slot), *mark)
        common.rows_axis(axes, [name if " = " in name else name.replace(" ", "\n") for name, _ in groups], reference=0)
        axes.set_xlabel("Difference of test loss (nats)")
        common.legend_on_top(axes, [common.mark(label, *mark) for label, _, *mark in kinds])


def _saving_handles(paper: str, over_time: bool = True) -> list[Line2D]:
    looks = [("$S$", COPY)] + ([(ADJUSTED.label, ADJUSTED)] if over_time else [])
    marks = [common.mark(text, look.color, look.marker, look.filled) for text, look in looks]
    return [*marks, Line2D([], [], color=style.GREY, lw=2.2, label=paper)]


PANELS = [*map(Curves, NAMES), Savings(), OverWidth(), Gains()]


# ---- caption -------------------------------------------------------------------------------------------------


def _caption(data: Data, panels: Sequence) -> str:
    curves = sum(isinstance(panel, Curves) for panel in panels)
    parts = [common.opening(data.sweep, data.cells)]
    if curves:
        which = ("(a)", "(a), (b)", "(a)–(c)")[curves - 1]
        parts.append(f"{which} validation loss; the first evaluations lie above; arrow: S.")
    parts += [f"({'abcdefghijkl'[i]}) {panel.about}." for i, panel in enumerate(panels) if panel.about]
    named = [(name, found) for name, found in data.groups() if savings(found)]
    if named:
        parts.append("S, over step time, steps saved with the paired t-test: " + "; ".join(saving_text(*group) for group in named) + ".")
    parts += [_between(data), _cost(data), _losses(data), _elsewhere(data), common.closing(data.cells)]
    return " ".join(part for part in parts if part)


def saving_text(name: str, found: Sequence) -> str:
    """S, over step time where it is measured, and the steps saved, of one group of pairs."""
    over_time = adjusted(found)
    parts = [f"{name} S = {common.plus_minus(savings(found))}"]
    if over_time:
        parts.append(common.plus_minus(over_time))
    steps = saved_steps(found)
    parts.append(f"{common.plus_minus([100 * s for s in steps], 1)} % ({common.p_value(steps)}, n = {len(steps)})")
    return ", ".join(parts)


def _between(data: Data) -> str:
    """S of the sliding window less S of full attention, paired over seeds."""
    values = saving_changes(data.at_backbone("sliding"), data.at_backbone("full"))
    if not values:
        return ""
    return f"S of the sliding window less that of full attention: {common.plus_minus(values, sign=True)} (n = {len(values)}; paper +0.3)."


def _cost(data: Data) -> str:
    parts = []
    for name, found in data.groups():
        if found and found[0][0].has(TIME):
            cell = found[0][0]
            ratios = (time_ratio(found), cell.value("overhead/flop_ratio"), cell.value("overhead/parameter_ratio"))
            parts.append(f"{name} {', '.join(common.signed(100 * (ratio - 1), 1) for ratio in ratios)} %")
    return f"Step time, arithmetic and parameters of the Copy-Paste model: {'; '.join(parts)}." if parts else ""


def _losses(data: Data) -> str:
    """The final validation losses of all cells (C6)."""
    gains = [mean_interval(differences(found, final_loss)) for _, found in data.groups() if found]
    if not gains:
        return ""
    low, high = (common.signed(end(gain.mean for gain in gains), 3) for end in (min, max))
    text = f"Final validation loss, Copy-Paste less plain: {low} to {high} nats over {len(gains)} settings"
    if all(gain.n > 1 for gain in gains):
        text += f", {sum(gain.high < 0 for gain in gains)} with an interval below 0"
    return text + "."


def _elsewhere(data: Data) -> str:
    """Perplexity on text of another corpus, as a share of the plain model's (C5)."""
    parts = []
    for name, found in data.groups():
        if found and all(cell.has(OTHER_TEXT) for pair in found for cell in pair):
            percent = [100 * math.expm1(d) for d in differences(found, OTHER_TEXT)]
            parts.append(f"{name} {common.plus_minus(percent, 1, sign=True)} %")
    return f"Perplexity on {data.pairs[0][0].get('measure.transfer.corpus', 'other text')}: {'; '.join(parts)}." if parts else ""


def final_loss(cell: Cell) -> float:
    return float(training_curve(cell).values[-1])
