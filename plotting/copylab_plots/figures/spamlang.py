"""SpamLang: accuracy against vocabulary size, and what decides it (draws per symbol, rank, gradients)."""

from __future__ import annotations

from collections import defaultdict
from typing import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .. import style
from ..results import Cell, Sweep
from ..stats import mean_interval

VOCAB, LENGTH, WIDTH, TIED = "task.vocab", "task.length", "model.dim", "model.tied"
PERIOD, INTERLEAVE, BUDGET = "task.period", "task.interleave", "train.budget"
FORWARD, BACKWARD, DETACH = "head.rank", "head.backward_rank", "head.detach"
ACCURACY, CEILING, CHANCE = "test/accuracy", "test/ceiling", "test/chance"
DRAWS = "test/budget_sequences_per_symbol"

# A cell is plain if these have these values; the others appear in panels of their own.
PLAIN = {PERIOD: 1, INTERLEAVE: 1, FORWARD: 0, BACKWARD: 0, DETACH: "none"}


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    data = Data(sweep)
    if not allow_missing:
        sweep.require(data.cells + [c for c in sweep.select("tune") if c.status == "missing"])

    panels = [panel for panel in PANELS if panel.wanted(data)]
    figure, all_axes = style.page([panel.room for panel in panels], data.legend())
    for i, (panel, axes) in enumerate(zip(panels, all_axes)):
        panel.draw(data, axes)
        style.title(axes, i, panel.title(data))
    return figure, _caption(data, panels), data.cells


class Data:
    """The cells to draw, by panel."""

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self.cells = [c for c in sweep if c.roles & {"best", "same"}]
        self.done = [c for c in self.cells if c.done]
        lengths = {self.get(c, LENGTH) for c in self.cells} - {None}
        budgets = [self.get(c, BUDGET) for c in self.cells]
        self.standards = {LENGTH: max(lengths, default=None), BUDGET: budgets[0] if budgets else None}
        self.tied_differs = len({self.get(c, TIED) for c in self.done}) > 1
        self.arms = list(dict.fromkeys(c.arm for c in self.cells))

    def get(self, cell: Cell, path: str):
        return self.sweep.setting(cell, path)

    def is_plain(self, cell: Cell, but: Sequence[str] = ()) -> bool:
        values = ((self.get(cell, path), value) for path, value in PLAIN.items() if path not in but)
        return all(found is None or found == value for found, value in values)

    def of_role(self, role: str) -> list[Cell]:
        return [c for c in self.cells if role in c.roles]

    def standard(self, role: str) -> list[Cell]:
        return [c for c in self.of_role(role) if self.is_plain(c) and all(self.is_standard(c, p) for p in self.standards)]

    def is_standard(self, cell: Cell, path: str) -> bool:
        return self.get(cell, path) in (None, self.standards[path])

    def look(self, cell: Cell) -> style.Look:
        tied = self.get(cell, TIED) if self.tied_differs else None
        look = style.look(cell.arm, tied, self.arms.index(cell.arm))
        if not self.is_standard(cell, LENGTH):
            return look.variant(f"T = {self.get(cell, LENGTH)}", "X")
        if not self.is_standard(cell, BUDGET):
            return look.variant("fixed draws", "P")
        return look

    def groups(self, cells: Sequence[Cell], key: Callable) -> dict:
        found = defaultdict(list)
        for cell in cells:
            found[key(cell)].append(cell)
        return found

    def vocabs(self, cells: Sequence[Cell]) -> list[int]:
        return sorted({self.get(c, VOCAB) for c in cells})

    def legend(self) -> list[Line2D]:
        looks = dict.fromkeys(self.look(c) for c in self.cells if self.is_plain(c))
        handles = [look.handle() for look in sorted(looks, key=lambda look: look.line == ":")]  # variants last
        handles.append(Line2D([], [], color=style.INK, lw=0.9, ls=(0, (1, 1)), label="exact solver"))
        handles.append(Line2D([], [], color=style.GREY, lw=0.9, ls="-.", label="chance"))
        return handles


# ---- panels --------------------------------------------------------------------------------------------------


class OverVocab:
    """Accuracy against V at a fixed budget, for one rule of choosing the learning rate."""

    room = style.Room(top_axis=True, note_row=True)

    about = ""

    def __init__(self, role: str):
        self.role = role

    def wanted(self, data: Data) -> bool:
        if not data.standard(self.role):  # every cell belongs to a panel of its own
            return False
        return self.role == "best" or any(c.roles == {"same"} or c.roles == {"tune", "same"} for c in data.cells)

    def title(self, data: Data) -> str:
        if not data.sweep.select_over:
            return "Accuracy against vocabulary size"
        tuned = _tuned(data.sweep)
        return f"Best {tuned} per arm" if self.role == "best" else f"Same {tuned} for all arms"

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.standard(self.role)
        _curves(data, axes, cells, data.look)
        _bounds(data, axes, cells)
        _vocab_axes(data, axes, cells)
        _missing(data, axes, cells, data.look)


class Condition:
    """The plain task under another length of sequences, or another rule for the budget (claim G13)."""

    room = style.Room(top_axis=True)

    def __init__(self, path: str, title: str, about: str):
        self.path, self._title, self.about = path, title, about

    def cells(self, data: Data) -> list[Cell]:
        other = LENGTH if self.path == BUDGET else BUDGET
        return [c for c in data.of_role("best") if data.is_plain(c) and data.is_standard(c, other)]

    def wanted(self, data: Data) -> bool:
        return not all(data.is_standard(c, self.path) for c in self.cells(data))

    def title(self, data: Data) -> str:
        return self._title

    def draw(self, data: Data, axes: Axes) -> None:
        cells = self.cells(data)
        _curves(data, axes, cells, data.look)
        _vocab_axes(data, axes, cells, draws=False)
        _missing(data, axes, cells, data.look)


class DrawsPanel:
    """Accuracy against independent sequences per symbol: do curves of different budgets meet?"""

    room = style.Room()
    about = "the cells of equal budget against the draws of a symbol, whatever V"

    def cells(self, data: Data) -> list[Cell]:
        return [c for c in data.of_role("best") if data.is_plain(c) and data.is_standard(c, BUDGET) and c.done]

    def wanted(self, data: Data) -> bool:
        per_vocab = defaultdict(set)
        for cell in self.cells(data):
            per_vocab[data.get(cell, VOCAB)].add(cell.value(DRAWS))
        return any(len(draws) > 1 for draws in per_vocab.values())

    def title(self, data: Data) -> str:
        return "Draws of a symbol"

    def draw(self, data: Data, axes: Axes) -> None:
        cells = self.cells(data)
        axes.set_xscale("log")
        style.percent(axes, "Test accuracy (%)")
        axes.set_xlabel("Independent sequences per symbol")
        _curves(data, axes, cells, data.look, x=lambda c: c.value(DRAWS))


class RankPanel:
    """The rank of the head against the rank of the gradient alone (papers: section 1.6)."""

    room = style.Room()
    about = "the output matrix factorised, or exact logits with only the gradient to the hidden states reduced"

    def cells(self, data: Data) -> list[Cell]:
        cells = [c for c in data.of_role("best") if data.is_plain(c, (FORWARD, BACKWARD)) and not data.is_plain(c)]
        largest = max(data.vocabs(cells), default=None)
        return [c for c in cells if data.get(c, VOCAB) == largest]

    def wanted(self, data: Data) -> bool:
        return bool(self.cells(data))

    def title(self, data: Data) -> str:
        return f"Rank of the head, $V$ = {data.vocabs(self.cells(data))[-1]:,}"

    def draw(self, data: Data, axes: Axes) -> None:
        cells = self.cells(data)
        kinds = (("forward_rank", FORWARD), ("backward_rank", BACKWARD))
        ranks = sorted({data.get(c, path) for c in cells for _, path in kinds if data.get(c, path)})
        style.log_ticks(axes, ranks, [str(r) for r in ranks])
        for name, path in kinds:
            group = [c for c in cells if data.get(c, path)]
            look = style.look(name)
            _curves(data, axes, group, lambda c: look, x=lambda c: data.get(c, path))
            _missing(data, axes, group, lambda c: look, x=lambda c: data.get(c, path))
        like = {(data.get(c, VOCAB), data.get(c, TIED)) for c in cells}
        full = [
            c.value(ACCURACY)
            for c in data.standard("best")
            if c.done and c.arm.startswith("vanilla") and (data.get(c, VOCAB), data.get(c, TIED)) in like
        ]
        if full:
            mean = mean_interval(full).mean
            axes.axhline(mean, color=style.VERMILION, lw=1.0, ls="--", zorder=1)
            axes.annotate("full rank", (0, mean), (3, 3), xycoords=axes.get_yaxis_transform(),
                          textcoords="offset points", color=style.VERMILION, size=8)
        style.percent(axes, "Test accuracy (%)")
        axes.set_xlabel("Rank")
        axes.legend(loc="upper left", handlelength=1.8)


class GradientPanel:
    """Blocked gradients where the source of the copy has to be selected."""

    room = style.Room()
    about = "the source of the copy must be selected; no gradient through the queries, the keys or both"
    markers = {"period": "o", "interleave": "D"}

    def cells(self, data: Data) -> list[Cell]:
        return [
            c
            for c in data.of_role("best")
            if (data.get(c, PERIOD) or 1) > 1 or (data.get(c, INTERLEAVE) or 1) > 1
        ]

    def wanted(self, data: Data) -> bool:
        return bool(self.cells(data))

    def title(self, data: Data) -> str:
        return "Gradient of the copy head blocked"

    def draw(self, data: Data, axes: Axes) -> None:
        def row(cell: Cell) -> tuple[str, str]:
            return cell.arm, data.get(cell, DETACH) or "none"

        def variant(cell: Cell) -> tuple[str, int]:
            period = data.get(cell, PERIOD) or 1
            return ("period", period) if period > 1 else ("interleave", data.get(cell, INTERLEAVE))

        cells = self.cells(data)
        rows = list(data.groups(cells, row))
        for slot, (kind, group) in enumerate(sorted(data.groups(cells, variant).items(), reverse=True)):
            for cell_row, members in data.groups(group, row).items():
                y = len(rows) - 1 - rows.index(cell_row) + 0.16 * (1 - 2 * slot)
                looks = data.look(members[0])
                values = [c.value(ACCURACY) for c in members if c.done]
                if values:
                    style.interval_mark(axes, values, y, looks.color, self.markers[kind[0]])
                for cell in members:
                    if cell.done and cell is members[0]:
                        axes.plot([cell.value(CEILING)], [y], "|", color=style.INK, ms=8, mew=0.9, zorder=1)
        words = {"none": "none", "q": "queries", "k": "keys"}
        labels = [
            words.get(blocked, blocked) if arm.startswith("copy_paste") else style.look(arm).label for arm, blocked in rows
        ]
        axes.set_yticks(range(len(rows) - 1, -1, -1), labels)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlim(-0.03, 1.05)
        axes.xaxis.set_major_formatter(style.PercentFormatter(1.0, decimals=0, symbol=""))
        axes.set_xlabel("Test accuracy (%)")
        kinds = dict.fromkeys(variant(c) for c in cells)
        handles = [
            Line2D([], [], ls="none", marker=self.markers[kind], color=style.GREY, label=f"{kind} {n}") for kind, n in kinds
        ]
        handles.append(Line2D([], [], ls="none", marker="|", ms=8, mew=0.9, color=style.INK, label="exact solver"))
        axes.legend(handles=handles, loc="best", handlelength=1)


PANELS = [
    OverVocab("best"),
    OverVocab("same"),
    Condition(LENGTH, "Length of the sequences", "equal numbers of tokens, cut into sequences of different lengths"),
    Condition(BUDGET, "Fixed draws of each symbol", "every symbol starts the same number of sequences, so the budget grows with V"),
    DrawsPanel(),
    RankPanel(),
    GradientPanel(),
]


# ---- parts of panels -----------------------------------------------------------------------------------------


def _curves(data: Data, axes: Axes, cells: Sequence[Cell], look: Callable, x: Callable | None = None) -> None:
    """Draws a curve per look."""
    x = x or (lambda cell: data.get(cell, VOCAB))
    groups = data.groups(cells, look)
    for slot, (looks, group) in enumerate(groups.items()):
        points = defaultdict(list)
        for cell in group:
            if cell.done:
                points[x(cell)].append(cell.value(ACCURACY))
        style.curve(axes, points, looks, dodge=1 + 0.05 * (slot - (len(groups) - 1) / 2), bounds=(0, 1))


def _bounds(data: Data, axes: Axes, cells: Sequence[Cell]) -> None:
    """What an exact solver and a uniform guess reach, as the program stored it."""
    done = {data.get(c, VOCAB): c for c in cells if c.done}
    xs = sorted(done)
    axes.plot(xs, [done[v].value(CEILING) for v in xs], color=style.INK, lw=0.9, ls=(0, (1, 1)), zorder=6)
    axes.plot(xs, [done[v].value(CHANCE) for v in xs], color=style.GREY, lw=0.9, ls="-.", zorder=1)


def _vocab_axes(data: Data, axes: Axes, cells: Sequence[Cell], draws: bool = True) -> None:
    vocabs = data.vocabs(cells)
    style.log_ticks(axes, vocabs, style.count_labels(vocabs))
    style.percent(axes, "Test accuracy (%)")
    axes.set_xlabel("Vocabulary size $V$", labelpad=13 if draws else 3)
    done = {data.get(c, VOCAB): c for c in cells if c.done}
    if draws:
        style.tick_notes(axes, {v: style.short(c.value(DRAWS)) for v, c in done.items()}, "seq./symbol")
    width = next((c[WIDTH] for c in cells if c.done), None)
    if width:
        ratios = [v / width for v in vocabs]
        style.top_axis(axes, dict(zip(vocabs, style.count_labels(ratios))), "$V/D$")


def _missing(data: Data, axes: Axes, cells: Sequence[Cell], look: Callable, x: Callable | None = None) -> None:
    x = x or (lambda cell: data.get(cell, VOCAB))
    looks = list(dict.fromkeys(look(c) for c in cells))
    for where, which in dict.fromkeys((x(c), look(c)) for c in cells if not c.done):
        style.mark_missing(axes, where, which, looks.index(which), len(looks))


# ---- caption -------------------------------------------------------------------------------------------------


def _tuned(sweep: Sweep) -> str:
    return {"train.lr": "learning rate"}.get(sweep.select_over, sweep.select_over)


def _caption(data: Data, panels: Sequence) -> str:
    sweep, done = data.sweep, data.done
    seeds = {len(group) for group in data.groups(data.standard("best"), lambda c: (c.arm, *c.coordinates.values())).values()}
    arms = list(dict.fromkeys(data.look(c).label for c in data.cells))
    parts = [f"SpamLang, preset {sweep.preset}."]
    if done:
        dim, length = done[0][WIDTH], data.standards[LENGTH]
        parts.append(f"Hidden width D = {dim}, sequences of T = {length}.")
        parts.append(f"Budget: {style.span([c.trained('tokens') for c in done])} tokens per run;")
        parts.append(f"seq./symbol: independent sequences of each symbol ({style.span([c.value(DRAWS) for c in data.standard('best') if c.done])}).")
    n = style.span(seeds)
    parts.append(f"n = {n} seed{'s' if n != '1' else ''}: " + ("dots are seeds, lines the mean, bands its 95 % t interval, cut at 0 and 100 %." if seeds != {1} else "no interval."))
    if sweep.select_over:
        parts.append(f"The {_tuned(sweep)} is chosen by validation loss.")
    notes = [f"({'abcdefghijkl'[i]}) {panel.about}" for i, panel in enumerate(panels) if panel.about]
    if notes:
        parts.append("; ".join(notes) + ".")
    parts.append(f"Arms: {'; '.join(arms)}.")
    absent = [c for c in data.cells if not c.done]
    if absent:
        parts.append(f"Hatched: {len(absent)} cells without a result.")
    diverged = sum(c.status == "failed" for c in sweep.select("tune"))
    if diverged:
        parts.append(f"{diverged} tuning runs failed (diverged) and cannot be chosen.")
    return " ".join(parts)

