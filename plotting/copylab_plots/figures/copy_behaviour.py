"""Copy behaviour: when a Copy-Paste head copies, from where, and what its predictions gain by it."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from .. import style
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

CORPUS, TOKENS = "task.corpus", "train.tokens"
MEASURE = "copy_behaviour"
SPARE = ((style.BLUE, "o"), (style.VERMILION, "s"), (style.GREEN, "D"), (style.PURPLE, "^"))
DASHES = (0, (4, 1.6))
SCORES = (("gate_auc", "gate"), ("use_auc", "use"), ("sink_auc", "sink"))
SOURCES = {  # of the measure, and the short name of a row
    "token": "token", "context1": "1 before", "context2": "2 before", "token+context1": "token + 1",
    "token+context2": "token + 2",
}  # fmt: skip
MODES = {
    "natural": style.Look("mixture", style.INK, "o"),
    "no_copy": style.Look("LM head alone", style.VERMILION, "s"),
    "force_copy": style.Look("pointer alone", style.BLUE, "D"),
}
REPEATS = {"new": "new", "token": "seen", "pair": "after same\ntoken", "triple": "after same\ntwo"}


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    data = Data(cells)
    figure, panels = common.draw_panels(PANELS, data, [data.looks[corpus].handle() for corpus in data.corpora])
    return figure, _caption(sweep, data, panels), cells


class Data:
    def __init__(self, cells: Sequence[Cell]):
        self.cells = cells
        self.done = [c for c in cells if c.done and c.has(f"{MEASURE}/gate_auc")]
        self.budgets = len({c.get(TOKENS) for c in self.done}) > 1
        self.corpora = list(dict.fromkeys(map(self.text, self.done)))
        self.looks = {text: style.Look(text, *SPARE[i % len(SPARE)]) for i, text in enumerate(self.corpora)}

    def text(self, cell: Cell) -> str:
        """What the model was trained on."""
        return f"{cell[CORPUS]}, {style.short(cell[TOKENS])} tokens" if self.budgets else cell[CORPUS]

    def by_corpus(self) -> dict[str, list[Cell]]:
        return {corpus: [c for c in self.done if self.text(c) == corpus] for corpus in self.corpora}

    def values(self, cells: Sequence[Cell], name: str) -> list[float]:
        return [c.value(f"{MEASURE}/{name}") for c in cells if c.has(f"{MEASURE}/{name}")]


class Panel:
    room = style.Room()

    def wanted(self, data: Data) -> bool:
        return bool(data.done)


def rows(axes: Axes, labels: Sequence[str], data: Data, values: Callable[[list[Cell], int], list[float]]) -> None:
    """A dot plot: a row per label, in each a mark per corpus."""
    groups = data.by_corpus()
    for i in range(len(labels)):
        for slot, (corpus, cells) in enumerate(groups.items()):
            y = len(labels) - 1 - i + 0.22 * ((len(groups) - 1) / 2 - slot)
            found = [v for v in values(cells, i) if np.isfinite(v)]
            if found:
                look = data.looks[corpus]
                style.interval_mark(axes, found, y, look.color, look.marker)
    axes.set_yticks(range(len(labels) - 1, -1, -1), labels)
    axes.set_ylim(-0.6, len(labels) - 0.4)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")


class Curves(Panel):
    """Arrays of one axis, a line per corpus."""

    def line(self, axes: Axes, data: Data, address: str, dim: str, line="-", label: str | None = None, **at) -> None:
        for corpus, cells in data.by_corpus().items():
            measured = [c for c in cells if c.has(f"{MEASURE}/{address}")]
            points = common.over((c.array(f"{MEASURE}/{address}").at(**at) for c in measured), dim)
            if points:
                style.smooth_curve(axes, points, data.looks[corpus].color, line, label)


class Roc(Curves):
    title = "When the gate opens"
    about = "ROC curve of the gate α for: the target is what the pointer prefers; dashed: of the sink for: the target is not copyable"

    def draw(self, data: Data, axes: Axes) -> None:
        self.line(axes, data, "roc", "false_positive_rate", score="gate")
        self.line(axes, data, "roc", "false_positive_rate", DASHES, score="sink")
        axes.plot([0, 1], [0, 1], color=style.GREY, lw=0.8, ls=(0, (1, 1)), zorder=1)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.05)
        axes.set_xlabel("False-positive rate")
        axes.set_ylabel("True-positive rate")
        axes.legend(handles=[Line2D([], [], color=style.INK, label="gate"), Line2D([], [], color=style.INK, ls=DASHES, label="sink")],
                    loc="lower right")  # fmt: skip


class Auc(Panel):
    title = "Area under these curves"
    about = "gate and use, α (1 − sink), for the first, sink for the second"

    def draw(self, data: Data, axes: Axes) -> None:
        rows(axes, [text for _, text in SCORES], data, lambda cells, i: data.values(cells, SCORES[i][0]))
        axes.axvline(0.5, color=style.INK, lw=0.8, zorder=1)
        axes.set_xlabel("AUC (0.5: chance)")


class Sources(Panel):
    title = "Where the copy mass lies"
    about = (
        "copy mass on positions that hold the target's token, that follow the same one or two tokens, or both, over the same "
        "mass spread evenly; hollow: over that spread by another sequence's weights"
    )

    def draw(self, data: Data, axes: Axes) -> None:
        names = list(SOURCES)

        def factor(suffix: str) -> Callable:
            return lambda cells, i: data.values(cells, names[i].replace("+", "_") + suffix)

        axes.set_xscale("log")
        rows(axes, list(SOURCES.values()), data, factor("_factor"))
        groups = data.by_corpus()
        for i in range(len(names)):
            for slot, (corpus, cells) in enumerate(groups.items()):
                found = [v for v in factor("_factor_shuffled")(cells, i) if np.isfinite(v) and v > 0]
                if found:
                    y = len(names) - 1 - i + 0.22 * ((len(groups) - 1) / 2 - slot)
                    look = data.looks[corpus]
                    axes.plot([mean_interval(found).mean], [y], ls="none", marker=look.marker, ms=4.2, mfc="none", mec=look.color, zorder=3)
        axes.axvline(1, color=style.INK, lw=0.8, zorder=1)
        axes.xaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.xaxis.set_minor_locator(style.NullLocator())
        axes.set_xlabel("Factor over chance")


class Repairs(Panel):
    title = "Fixes and breaks"
    about = "share of targets where only the mixture, or only its LM head alone, has the right token on top"

    def draw(self, data: Data, axes: Axes) -> None:
        names = ("fixes", "breaks")
        rows(axes, names, data, lambda cells, i: [100 * v for v in data.values(cells, names[i])])
        axes.set_xlim(left=0)
        axes.set_xlabel("Targets (%)")


class Modes(Panel):
    title = "Modes by repetition"
    about = "loss of the three modes on targets that are new, seen, or seen after the same one or two tokens, first text of the legend"

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.by_corpus()[data.corpora[0]]
        for slot, (mode, look) in enumerate(MODES.items()):
            points = {}
            for x, repeat in enumerate(REPEATS):
                found = [float(c.array(f"{MEASURE}/loss_by_repeat").at(repeat=repeat, mode=mode).values) for c in cells]
                points[x + 0.12 * (slot - 1)] = [v for v in found if np.isfinite(v)]
            style.curve(axes, points, look)
        axes.set_xticks(range(len(REPEATS)), list(REPEATS.values()))
        axes.set_xlim(-0.4, len(REPEATS) - 0.6)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("Loss (nats)")
        axes.legend(loc="best", handlelength=1.8)


class Positions(Curves):
    title = "Use and sink by position"
    about = "mean use α (1 − sink), and dashed, on the right axis, mean sink"
    room = style.Room(right_axis=True)

    def draw(self, data: Data, axes: Axes) -> None:
        self.line(axes, data, "use_by_position", "position")
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Tokens in the context")
        axes.set_ylabel("Use")
        right = axes.twinx()
        right.spines["right"].set_visible(True)
        right.grid(visible=False)
        self.line(right, data, "sink_by_position", "position", DASHES)
        right.set_ylim(0, 1)
        right.set_ylabel("Sink")


class Distances(Curves):
    title = "Copy mass by distance"
    about = "share of the copy mass by distance to the target, 1 being the newest token, on positions that hold the target; dashed: if another sequence's weights spread it"

    def draw(self, data: Data, axes: Axes) -> None:
        self.line(axes, data, "right_mass_by_distance", "distance")
        self.line(axes, data, "shuffled_right_mass_by_distance", "distance", DASHES)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Distance, largest of the bin (tokens)")
        axes.set_ylabel("Share of copy mass")


class Ranks(Panel):
    title = "Rank over its bound"
    about = "numerical rank over contexts of the logits over D, of the log-softmax over D + 1, of the log of the mixture over 2D"
    names = {"logits": "logits", "log_softmax": "log-softmax", "mixture": "mixture"}

    def wanted(self, data: Data) -> bool:
        return any(c.has("mixture_rank/mixture_rank") for c in data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        keys = list(self.names)
        rows(axes, list(self.names.values()), data,
             lambda cells, i: [c.value(f"mixture_rank/{keys[i]}_rank_over_bound") for c in cells])  # fmt: skip
        axes.axvline(1, color=style.INK, lw=0.8, zorder=1)
        axes.set_xlim(left=0)
        axes.set_xlabel("Rank over bound")


PANELS = [Roc(), Auc(), Sources(), Repairs(), Modes(), Positions(), Distances(), Ranks()]


def _caption(sweep: Sweep, data: Data, panels: Sequence) -> str:
    return " ".join([common.opening(sweep, data.cells), common.letters(panels), common.closing(data.cells)]).strip()
