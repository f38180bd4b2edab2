"""Meta-tokens: accuracy on prompts by arm, by length, and without parts of the trained model; loss on text; attention,
rate and distortion, and cost."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Callable, Iterable, NamedTuple, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Array, Cell, Sweep
from . import common

TASKS = {
    "list_recall": "List recall", "segment_counting": "Segment counting", "parity": "Parity", "bracket_copy": "Bracket copy",
}  # fmt: skip
MODES = {
    "full": "as trained", "no_position": "no position", "no_embedding": "no embedding", "no_words": "no words",
    "no_metas": "no metas", "neither": "neither",
}  # fmt: skip
ACCURACY = "Accuracy (%)"
DOTTED = (0, (1, 1))


class Layout(NamedTuple):
    """What one figure shows: its panels, in order, the entries of its legend, and what its caption says of them."""

    panels: Sequence
    about: str
    handles: Sequence = ()


def _drawing(layout: Callable[[Data], Layout]) -> Callable[..., tuple[Figure, str, list[Cell]]]:
    """The draw(sweep, allow_missing) of a figure."""

    @functools.wraps(layout)
    def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
        cells = common.reported(sweep, allow_missing)
        data = Data(sweep, cells)
        panels, about, handles = layout(data)
        figure, _ = common.draw_panels(panels, data, handles)
        return figure, data.caption(about), cells

    return draw


@_drawing
def draw_recall(data: Data) -> Layout:
    """Accuracy on each task by arm, against the training length where there are several."""
    several = len({data.at(c, "task.length") for c in data.cells}) > 1
    about = "Share of labels of the test prompts that are the most probable token; dotted: a uniform guess among the answers."
    return Layout([(TrainingLength if several else ByArm)(task) for task in data.tasks], about, data.handles(marks=not several))


@_drawing
def draw_lengths(data: Data) -> Layout:
    """Accuracy at other lengths than that of training, a panel for each task and swept setting."""
    about = (
        "Share of test prompts whose whole answer is right, against their length; the line marks the length of the last stage of "
        "training. The content of a prompt is the same at every length, and words fill it."
    )
    return Layout([TestLength(group) for group in sorted({data.group(c) for c in data.cells})], about, data.handles())


@_drawing
def draw_modes(data: Data) -> Layout:
    """Accuracy of trained models of which something was taken away."""
    measure = "meta_path" if data.sweep.experiment == "meta-path" else "meta_zero"  # runs are shared and may have both
    about = {
        "meta_zero": "Share of test prompts whose whole answer is right, with the positional encoding or the embedding of meta-tokens "
        "taken away at inference; at the first size and length that were measured.",
        "meta_path": "Share of test prompts whose whole answer is right where the question may see all of the prompt, no words of it, "
        "no meta-tokens (metas), or neither; blocked in every block at inference.",
    }[measure]
    panels = [Modes(task, measure) for task in data.tasks]
    return Layout(panels, f"{about} Dotted: a uniform guess of one label.", data.handles(marks=True))


@_drawing
def draw_injection(data: Data) -> Layout:
    """Accuracy by how meta-tokens were put into the text of the first stage."""
    about = (
        "Test accuracy by how meta-tokens stood in the text of the first stage: first row at random places, without loss on them, "
        "attention among them in all blocks; below: one change."
    )
    return Layout([ByChange(task) for task in data.tasks], about)


@_drawing
def draw_text(data: Data) -> Layout:
    """Loss on tokens of the text below that of the plain model."""
    about = (
        "Loss on the tokens of the text less that of the plain model with the same seed (nats); below 0: better. Meta-tokens are "
        "never asked for. wide: as many weights as meta, which attends among its meta-tokens, k = 0.1; pause: does not; "
        "below: one change against meta. Another k has other windows of the same test text."
    )
    return Layout([LossOfText("test/loss", "In domain"), LossOfText("transfer/loss", "Novels")], about)


@_drawing
def draw_entropy(data: Data) -> Layout:
    """Attention with meta-tokens and with their embeddings at zero, and cosines by distance."""
    panels = [
        ByTask("entropy_drop", "Entropy of attention", "Zeroed less as it is (nats)"),
        ByTask("logit_boost", "Largest logit of a row", "As it is less zeroed"),
        *[CosineByDistance(task) for task in data.tasks],
    ]
    raised = [c.value("meta_attention_entropy/raised") for c in data.done if c.has("meta_attention_entropy/raised")]
    about = (
        "Each prompt is read as it is and with the embeddings of its meta-tokens at zero; means over rows of attention that see "
        "a meta-token. Cosines of a meta-token's state after the last block with ordinary tokens before it; dashed: with what "
        f"stands there in another prompt. A boost of the meta-token would raise the entropy of {100 * _mean(raised):.0f} % of the rows."
    )
    return Layout(panels, about, data.handles(marks=True))


@_drawing
def draw_rate_distortion(data: Data) -> Layout:
    """Distortion against rate of each state."""
    about = (
        "Variational bottlenecks on frozen states: mean over test prompts of −log p(answer) against the rate, one point for each "
        "weight of the rate; thin lines are seeds, thick ones their means; dotted: the answers' frequencies alone."
    )
    handles = [style.Look(label, color, marker).handle() for label, color, marker in RateDistortion.STATES.values()]
    return Layout([RateDistortion(task) for task in data.tasks], about, handles)


@_drawing
def draw_cost(data: Data) -> Layout:
    """Time with meta-attention over that without."""
    presets = list(dict.fromkeys(c["model.preset"] for c in data.done))
    looks = {(form, preset): Cost.look(form, preset, filled=i == 0) for i, preset in enumerate(presets) for form in Cost.FORMS}
    about = (
        "Shortest time with meta-attention over the shortest without; sparse: over the gathered meta-tokens, dense: over all "
        "positions under a mask; dotted: the paper's 1.11."
    )
    panels = [Cost("step", "Training step", looks), Cost("forward", "Forward pass", looks)]
    return Layout(panels, about, [look.handle() for look in looks.values()])


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.done = [c for c in cells if c.done]
        self.arms = list(dict.fromkeys(c.arm for c in cells))
        present = {self.at(c, "task.name") for c in cells}
        self.tasks = [task for task in TASKS if task in present]

    def at(self, cell: Cell, path: str):
        return self.sweep.setting(cell, path)

    def of(self, arm: str | None = None, task: str | None = None, address: str = "test/accuracy") -> list[Cell]:
        return [
            c for c in self.done
            if (arm is None or c.arm == arm) and (task is None or c["task.name"] == task) and c.has(address)
        ]  # fmt: skip

    def have(self, address: str) -> bool:
        return any(c.has(address) for c in self.done)

    def look(self, arm: str) -> style.Look:
        look = style.look(arm, spare=self.arms.index(arm))
        if arm == "meta" and "copy_paste" in self.arms:  # which look the same elsewhere
            return replace(look, color=style.SKY, marker="P")
        return look

    def handles(self, marks: bool = False) -> list:
        looks = [self.look(arm) for arm in self.arms]
        return [common.mark(k.label, k.color, k.marker, k.filled) if marks else k.handle() for k in looks]

    def group(self, cell: Cell) -> tuple[str, ...]:
        """What tells the panels of draw_lengths apart: the task, and swept settings as they are written."""
        swept = [f"{path.rpartition('.')[2]} {style.short(v) if isinstance(v, (int, float)) else v}"
                 for path, v in sorted(cell.coordinates.items()) if path != "task.name"]  # fmt: skip
        return (TASKS.get(self.at(cell, "task.name"), ""), *swept)

    def caption(self, about: str) -> str:
        return f"{common.opening(self.sweep, self.cells)} {about} {common.closing(self.cells)}".strip()


# ---- panels --------------------------------------------------------------------------------------------------


class TrainingLength:
    """Lines over the training length, one for each arm."""

    about = ""

    def __init__(self, task: str):
        self.task, self.title = task, TASKS[task]

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task))

    def draw(self, data: Data, axes: Axes) -> None:
        lengths = set()
        for i, arm in enumerate(data.arms):
            points = common.per_seed(data.of(arm, self.task), lambda c: c["task.length"], lambda c: c.value("test/accuracy"))
            style.curve(axes, points, data.look(arm), dodge=1 + 0.012 * (i - len(data.arms) / 2), bounds=(0, 1))
            lengths |= set(points)
        style.log_ticks(axes, sorted(lengths), style.count_labels(sorted(lengths)))
        _chance(axes.axhline, data.of(task=self.task))
        axes.set_xlabel("Training length $T$ (tokens)")
        style.percent(axes, ACCURACY)


class ByArm:
    """A row for each arm, named by the legend: the names are too long for a tick."""

    about = ""

    def __init__(self, task: str):
        self.task, self.title = task, TASKS[task]

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task))

    def draw(self, data: Data, axes: Axes) -> None:
        rows = [(data.look(arm), [c.value("test/accuracy") for c in data.of(arm, self.task)]) for arm in data.arms]
        _rows(axes, [("", values, look) for look, values in rows if values])
        _chance(axes.axvline, data.of(task=self.task, address="test/chance"), 100, zorder=1)


class TestLength:
    """Lines over the length of test prompts, one for each arm."""

    about = ""

    def __init__(self, group: tuple[str, ...]):
        self.group, self.title = group, ", ".join(part for part in group if part)

    def wanted(self, data: Data) -> bool:
        return bool(self._cells(data))

    def _cells(self, data: Data, arm: str | None = None) -> list[Cell]:
        return [c for c in data.of(arm, address="lengths/answer_accuracy") if data.group(c) == self.group]

    def draw(self, data: Data, axes: Axes) -> None:
        lengths = set()
        for arm in data.arms:
            points = common.over((_first_place(c) for c in self._cells(data, arm)), "length")
            style.curve(axes, points, data.look(arm), bounds=(0, 1))
            lengths |= set(points)
        style.log_ticks(axes, sorted(lengths), style.count_labels(sorted(lengths)))
        for trained in sorted({c["task.length"] for c in self._cells(data)}):
            axes.axvline(trained, color=style.GREY, lw=0.8, ls=DOTTED)
        _chance(axes.axhline, self._cells(data))
        axes.set_xlabel("Test length (tokens)")
        style.percent(axes, ACCURACY)


class Modes:
    """A row for each mode of a measure, at the first of its cells, a mark for each arm."""

    about = ""

    def __init__(self, task: str, measure: str):
        self.task, self.measure, self.title = task, measure, TASKS[task]
        self.address = f"{measure}/answer_accuracy"

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task, address=self.address))

    def draw(self, data: Data, axes: Axes) -> None:
        modes = list(data.of(task=self.task, address=self.address)[0].array(self.address).coords["mode"])
        common.rows_axis(axes, [MODES.get(mode, mode) for mode in modes])
        _chance(axes.axvline, data.of(task=self.task, address="test/chance"), 100, zorder=1)

        def values(arm: str, mode: str) -> list[float]:
            cells = data.of(arm, self.task, self.address)
            return [100 * float(c.array(self.address).at(mode=mode).values.ravel()[0]) for c in cells]

        _marks(axes, data, modes, values)
        axes.set_xlim(-3, 105)
        axes.set_xlabel(ACCURACY)


class ByChange:
    """A row for each change against the first setting."""

    about = ""
    PATHS = {"task.meta_rate": "k = {}", "task.meta_placement": "{}", "task.meta_loss": "loss on them",
             "model.meta_attention": "{} block"}  # fmt: skip

    def __init__(self, task: str):
        self.task, self.title = task, TASKS[task]

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task))

    def draw(self, data: Data, axes: Axes) -> None:
        first = data.of(task=self.task)[0].coordinates  # of the cells, the first has no change
        found: dict[str, list[float]] = {}
        for cell in data.of(task=self.task):
            changed = [text.format(cell.coordinates[path]) for path, text in self.PATHS.items()
                       if path in first and cell.coordinates[path] != first[path]]  # fmt: skip
            name = ", ".join(changed) or f"k = {first.get('task.meta_rate')}"
            found.setdefault(name, []).append(cell.value("test/accuracy"))
        look = style.look("meta")
        _rows(axes, [(name, values, look) for name, values in found.items()])


class LossOfText:
    """A row for each arm: loss less that of the plain one."""

    about = ""
    NAMES = {
        "plain_wide": "wide", "pause": "pause", "meta": "meta", "meta_0.02": "k = 0.02", "meta_0.05": "k = 0.05", "meta_0.2": "k = 0.2",
        "meta_periodic": "periodic", "meta_first": "first block", "meta_last": "last block", "meta_loss": "loss on metas",
    }  # fmt: skip

    def __init__(self, address: str, title: str):
        self.address, self.title = address, title

    def wanted(self, data: Data) -> bool:
        return data.have(self.address)

    def draw(self, data: Data, axes: Axes) -> None:
        found = {arm: differences(pairs(data.done, arm, "plain"), self.address) for arm in data.arms if arm != "plain"}
        found = {arm: values for arm, values in found.items() if values}
        axes.tick_params(axis="y", labelsize=7)
        common.rows_axis(axes, [self.NAMES.get(arm, data.look(arm).label) for arm in found], reference=0)
        for row, (arm, values) in enumerate(found.items()):
            look = data.look(arm)
            style.interval_mark(axes, values, len(found) - 1 - row, look.color, look.marker, look.filled)
        axes.set_xlabel("Loss less that of the plain model (nats)")


class ByTask:
    """A row for each task, a mark for each arm, of one number of meta_attention_entropy."""

    about = ""

    def __init__(self, name: str, title: str, label: str):
        self.address, self.title, self.label = f"meta_attention_entropy/{name}", title, label

    def wanted(self, data: Data) -> bool:
        return data.have(self.address)

    def draw(self, data: Data, axes: Axes) -> None:
        common.rows_axis(axes, [TASKS[task] for task in data.tasks], reference=0)
        _marks(axes, data, data.tasks, lambda arm, task: [c.value(self.address) for c in data.of(arm, task, self.address)])
        axes.set_xlabel(self.label)


class CosineByDistance:
    """Lines over the distance from a meta-token back, one for each arm, and their null."""

    about = ""
    ADDRESS = "meta_attention_entropy/cosine"

    def __init__(self, task: str):
        self.task, self.title = task, f"{TASKS[task]}: cosines"

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task, address=self.ADDRESS))

    def draw(self, data: Data, axes: Axes) -> None:
        distances = set()
        for arm in data.arms:
            cells = data.of(arm, self.task, self.ADDRESS)
            points = common.over((_last_layer(c.array(self.ADDRESS)) for c in cells), "distance")
            style.curve(axes, points, data.look(arm), bounds=(-1, 1))
            null = common.over((_last_layer(c.array(f"{self.ADDRESS}_other")) for c in cells), "distance")
            style.smooth_curve(axes, null, data.look(arm).color, "--", band=False)
            distances |= set(points)
        style.log_ticks(axes, sorted(distances), style.count_labels(sorted(distances)))
        axes.set_xlabel("Distance up to (tokens)")
        axes.set_ylabel("Cosine")


class RateDistortion:
    """A curve for each state."""

    about = ""
    STATES = {
        "last_token": ("Last token", style.VERMILION, "s"),
        "meta_token": ("Meta-token", style.BLUE, "o"),
        "meta_token_no_position": ("Meta-token without position", style.SKY, "^"),
    }

    def __init__(self, task: str):
        self.task, self.title = task, TASKS[task]

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task, address="rate_distortion/rate"))

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.of(task=self.task, address="rate_distortion/rate")
        for state, (_, color, marker) in self.STATES.items():
            curves = [[c.array(f"rate_distortion/{what}").at(state=state).values for what in ("rate", "distortion")] for c in cells]
            for rate, distortion in curves:
                axes.plot(rate, distortion, color=color, lw=0.6, alpha=0.5, zorder=3)
            mean = [[_mean(column) for column in zip(*(curve[i] for curve in curves))] for i in (0, 1)]
            axes.plot(*mean, color=color, marker=marker, zorder=4)
        axes.axhline(_mean(c.value("rate_distortion/label_entropy") for c in cells), color=style.GREY, lw=0.8, ls=DOTTED)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Rate (nats)")
        axes.set_ylabel("Distortion (nats)")


class Cost:
    """Lines over the length, one for each form of meta-attention and shape."""

    about = ""
    FORMS = {"sparse": (style.BLUE, "o"), "dense": (style.VERMILION, "s")}

    def __init__(self, what: str, title: str, looks: dict[tuple[str, str], style.Look]):
        self.what, self.title, self.looks = what, title, looks

    @classmethod
    def look(cls, form: str, preset: str, filled: bool) -> style.Look:
        return style.Look(f"{form}, {preset}", *cls.FORMS[form], filled, "-" if filled else "--")

    def wanted(self, data: Data) -> bool:
        return data.have(f"meta_cost/sparse_{self.what}_ratio_least")

    def draw(self, data: Data, axes: Axes) -> None:
        lengths = set()
        for (form, preset), look in self.looks.items():
            cells = [c for c in data.done if c["model.preset"] == preset]
            address = f"meta_cost/{form}_{self.what}_ratio_least"
            points = common.per_seed(cells, lambda c: c["task.length"], lambda c: c.value(address))
            style.curve(axes, points, look)
            lengths |= set(points)
        style.log_ticks(axes, sorted(lengths), style.count_labels(sorted(lengths)))
        axes.axhline(1, color=style.INK, lw=0.8)
        axes.axhline(1.11, color=style.GREY, lw=0.8, ls=DOTTED)
        axes.set_xlabel("Context (tokens)")
        axes.set_ylabel("Time over that without")


# ---- parts ---------------------------------------------------------------------------------------------------


def _rows(axes: Axes, rows: Iterable[tuple[str, Sequence[float], style.Look]]) -> None:
    rows = list(rows)
    common.rows_axis(axes, [label for label, *_ in rows])
    for i, (_, values, look) in enumerate(rows):
        style.interval_mark(axes, [100 * v for v in values], len(rows) - 1 - i, look.color, look.marker, look.filled)
    axes.set_xlim(-3, 105)
    axes.set_xlabel(ACCURACY)


def _first_place(cell: Cell):
    """Accuracy over lengths, at the first level and place of meta-tokens that were measured."""
    array = cell.array("lengths/answer_accuracy")
    return array.at(level=array.coords["level"][0], pause=array.coords["pause"][0])


def _marks(axes: Axes, data: Data, rows: Sequence[str], values: Callable[[str, str], list[float]]) -> None:
    """In each row of a rows_axis a mark for each arm, of values(arm, row)."""
    axes.tick_params(axis="y", labelsize=7)
    for i, arm in enumerate(data.arms):
        look, shift = data.look(arm), 0.14 * ((len(data.arms) - 1) / 2 - i)
        for row, name in enumerate(rows):
            found = values(arm, name)
            if found:
                style.interval_mark(axes, found, len(rows) - 1 - row + shift, look.color, look.marker, look.filled)


def _chance(line: Callable, cells: Iterable[Cell], scale: float = 1, **options) -> None:
    """Dotted lines (axhline or axvline of some axes) at `scale` times what a uniform guess gets."""
    for chance in {round(c.value("test/chance"), 6) for c in cells}:
        line(scale * chance, color=style.GREY, lw=0.8, ls=DOTTED, **options)


def _last_layer(array: Array) -> Array:
    return Array(array.values[-1], array.dims[1:], array.coords, array.doc)


def _mean(values: Iterable[float]) -> float:
    """Of those that are numbers: a level whose prompts do not fit into a length has none."""
    values = [v for v in values if math.isfinite(v)]
    return math.fsum(values) / len(values) if values else math.nan


DRAWINGS: dict[str, Callable] = {
    "meta-recall": draw_recall,
    "meta-copy": draw_recall,
    "meta-training-length": draw_recall,
    "meta-length": draw_lengths,
    "meta-yarn": draw_lengths,
    "meta-zero-position": draw_modes,
    "meta-path": draw_modes,
    "meta-injection": draw_injection,
    "meta-text": draw_text,
    "meta-attention-entropy": draw_entropy,
    "meta-rate-distortion": draw_rate_distortion,
    "meta-cost": draw_cost,
}
