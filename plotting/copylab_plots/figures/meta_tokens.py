"""Meta-tokens: accuracy on prompts by arm, by length, and without parts of the trained model; loss on text."""

from __future__ import annotations

import math
from typing import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep
from . import common

TASKS = {
    "list_recall": "List recall", "segment_counting": "Segment counting", "parity": "Parity", "bracket_copy": "Bracket copy",
}  # fmt: skip
MODES = {
    "full": "as trained", "no_position": "no positions", "no_embedding": "no embeddings", "no_words": "no words",
    "no_metas": "no meta-tokens", "neither": "neither",
}  # fmt: skip
ACCURACY = "Accuracy (%)"


def draw_recall(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """Accuracy on each task by arm, against the training length where there are several."""
    cells = common.reported(sweep, allow_missing)
    data = Data(sweep, cells)
    several = len({data.at(c, "task.length") for c in cells}) > 1
    panels = [(TrainingLength if several else ByArm)(task) for task in data.tasks]
    figure, panels = common.draw_panels(panels, data, data.handles() if several else ())
    about = "Share of labels of the test prompts that are the most probable token; dotted: a uniform guess among the answers."
    return figure, data.caption(about), cells


def draw_lengths(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """Accuracy at other lengths than that of training, a panel for each task and swept setting."""
    cells = common.reported(sweep, allow_missing)
    data = Data(sweep, cells)
    groups = sorted({data.group(c) for c in cells})
    figure, panels = common.draw_panels([TestLength(group) for group in groups], data, data.handles())
    about = (
        "Share of test prompts whose whole answer is right, against their length; the line marks the length of the last stage of "
        "training. The content of a prompt is the same at every length, and words fill it."
    )
    return figure, data.caption(about), cells


def draw_modes(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """Accuracy of trained models of which something was taken away."""
    cells = common.reported(sweep, allow_missing)
    data = Data(sweep, cells)
    measure = next((m for m in ("meta_zero", "meta_path") if data.have(f"{m}/answer_accuracy")), "meta_zero")
    figure, panels = common.draw_panels([Modes(task, measure) for task in data.tasks], data, data.handles(marks=True))
    what = "the positional encoding or the embedding of meta-tokens" if measure == "meta_zero" else "what the question may see"
    about = f"Share of test prompts whose whole answer is right, with {what} taken away at inference."
    return figure, data.caption(about), cells


def draw_injection(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """Accuracy by how meta-tokens were put into the text of the first stage."""
    cells = common.reported(sweep, allow_missing)
    data = Data(sweep, cells)
    figure, _ = common.draw_panels([ByChange(task) for task in data.tasks], data)
    return figure, data.caption("Test accuracy by how meta-tokens stood in the text of the first stage."), cells


def draw_text(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """Loss on tokens of the text below that of the plain model."""
    cells = common.reported(sweep, allow_missing)
    data = Data(sweep, cells)
    figure, _ = common.draw_panels([LossOfText("test/loss", "In domain"), LossOfText("transfer/loss", "Novels")], data)
    about = (
        "Loss on the tokens of the text less that of the plain model with the same seed (nats); below 0: better. Meta-tokens are "
        "never asked for."
    )
    return figure, data.caption(about), cells


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
        return style.look(arm, spare=self.arms.index(arm))

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
        _chance(axes, data.of(task=self.task))
        axes.set_xlabel("Training length $T$ (tokens)")
        style.percent(axes, ACCURACY)


class ByArm:
    """A row for each arm."""

    about = ""

    def __init__(self, task: str):
        self.task, self.title = task, TASKS[task]

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task))

    def draw(self, data: Data, axes: Axes) -> None:
        rows = [(data.look(arm), [c.value("test/accuracy") for c in data.of(arm, self.task)]) for arm in data.arms]
        _rows(axes, [(look.label, values, look) for look, values in rows if values])


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
            axes.axvline(trained, color=style.GREY, lw=0.8, ls=(0, (1, 1)))
        _chance(axes, self._cells(data))
        axes.set_xlabel("Test length (tokens)")
        style.percent(axes, ACCURACY)


class Modes:
    """A row for each mode and cell of a measure, a mark for each arm."""

    about = ""

    def __init__(self, task: str, measure: str):
        self.task, self.measure, self.title = task, measure, TASKS[task]
        self.address = f"{measure}/answer_accuracy"

    def wanted(self, data: Data) -> bool:
        return bool(data.of(task=self.task, address=self.address))

    def draw(self, data: Data, axes: Axes) -> None:
        modes = list(data.of(task=self.task, address=self.address)[0].array(self.address).coords["mode"])
        common.rows_axis(axes, [MODES.get(mode, mode) for mode in modes])
        for i, arm in enumerate(data.arms):
            look, cells = data.look(arm), data.of(arm, self.task, self.address)
            shift = 0.14 * ((len(data.arms) - 1) / 2 - i)
            for row, mode in enumerate(modes):
                values = [_mean(c.array(self.address).at(mode=mode).values.ravel()) for c in cells]
                if values:
                    style.interval_mark(axes, [100 * v for v in values], len(modes) - 1 - row + shift, look.color, look.marker, look.filled)
        axes.set_xlim(-3, 105)
        axes.set_xlabel(ACCURACY)


class ByChange:
    """A row for each change against the first setting."""

    about = ""
    PATHS = {"task.meta_rate": "k = {}", "task.meta_placement": "{}", "task.meta_loss": "loss on them"}

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
            name = ", ".join(changed) or f"k = {first.get('task.meta_rate')}, random"
            found.setdefault(name, []).append(cell.value("test/accuracy"))
        look = style.look("meta")
        _rows(axes, [(name, values, look) for name, values in found.items()])


class LossOfText:
    """A row for each arm: loss less that of the plain one."""

    about = ""

    def __init__(self, address: str, title: str):
        self.address, self.title = address, title

    def wanted(self, data: Data) -> bool:
        return data.have(self.address)

    def draw(self, data: Data, axes: Axes) -> None:
        found = {arm: differences(pairs(data.done, arm, "plain"), self.address) for arm in data.arms if arm != "plain"}
        found = {arm: values for arm, values in found.items() if values}
        common.rows_axis(axes, [data.look(arm).label for arm in found], reference=0)
        for row, (arm, values) in enumerate(found.items()):
            look = data.look(arm)
            style.interval_mark(axes, values, len(found) - 1 - row, look.color, look.marker, look.filled)
        axes.set_xlabel("Loss less that of the plain model (nats)")


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


def _chance(axes: Axes, cells: Iterable[Cell]) -> None:
    for chance in {round(c.value("test/chance"), 6) for c in cells}:
        axes.axhline(chance, color=style.GREY, lw=0.8, ls=(0, (1, 1)))


def _mean(values: Iterable[float]) -> float:
    """Of those that are numbers: a level whose prompts do not fit into a length has none."""
    values = [v for v in values if math.isfinite(v)]
    return math.fsum(values) / len(values) if values else math.nan


DRAWINGS: dict[str, Callable] = {
    "meta-recall": draw_recall,
    "meta-copy": draw_recall,
    "meta-length": draw_lengths,
    "meta-yarn": draw_lengths,
    "meta-zero-position": draw_modes,
    "meta-path": draw_modes,
    "meta-injection": draw_injection,
    "meta-text": draw_text,
}
