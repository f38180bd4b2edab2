"""Heads: every output head against the plain one on the same backbone, text and seeds; blocked gradients."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import pairs
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

LOSS = "test/loss"
ROW = 0.185  # inches between the rows of a dot plot


class Row(NamedTuple):
    label: str
    arm: str
    color: str
    marker: str
    measure: str = ""  # a baseline on top of the arm's model, whose gain is taken off its loss


PLAIN, SENTINEL, COPY, CHANGED, AUXILIARY, POST_HOC = (
    (style.VERMILION, "s"), (style.GREEN, "D"), (style.BLUE, "o"), (style.SKY, "v"), (style.ORANGE, "^"), (style.GREY, "P"),
)  # fmt: skip
GROUPS = (
    (Row("mixture of softmaxes", "mixture_of_softmaxes", *PLAIN),),
    (
        Row("neural cache on plain", "vanilla", *POST_HOC, "neural_cache"),
        Row("exact match on plain", "vanilla", *POST_HOC, "exact_match"),
    ),
    (
        Row("pointer-generator", "pointer_generator", *SENTINEL),
        Row("pointer sentinel", "psm", *SENTINEL),
        Row("… no auxiliary loss", "psm_no_aux", *SENTINEL),
        Row("… scores scaled", "psm_scaled", *SENTINEL),
    ),
    (
        Row("Copy-Paste", "copy_paste", *COPY),
        Row("… gradients blocked", "copy_paste_blocked", *CHANGED),
        Row("… sigmoid gate", "sigmoid_gate", *CHANGED),
        Row("… gate floor 0.1", "gate_floor", *CHANGED),
        Row("… no sink", "no_sink", *CHANGED),
        Row("… sink dropped", "dropped_sink", *CHANGED),
        Row("… token after the key", "next_token", *CHANGED),
        Row("… not the current token", "no_copy_self", *CHANGED),
        Row("… no QK-norm", "no_qk_norm", *CHANGED),
    ),
    (
        Row("… + 0.1 LM loss", "lm_aux_tenth", *AUXILIARY),
        Row("… + 1 LM loss", "lm_aux_one", *AUXILIARY),
        Row("… + 1 LM loss, extended", "lm_aux_extended", *AUXILIARY),
        Row("… + pointer loss", "pointer_aux", *AUXILIARY),
    ),
    (
        Row("neural cache on Copy-Paste", "copy_paste", *POST_HOC, "neural_cache"),
        Row("exact match on Copy-Paste", "copy_paste", *POST_HOC, "exact_match"),
    ),
)
COLUMN = 0.36  # inches of a column of numbers
COLUMNS = (
    ("params", "overhead/parameter_ratio", lambda v: f"+{100 * (v - 1):.1f}%"),
    ("step", "overhead/time_ratio", lambda v: f"{v:.2f}×"),
    ("gate", "test/gate", lambda v: f"{v:.2f}"),
    ("sink", "test/sink", lambda v: f"{v:.2f}"),
)
PANELS = (("All targets", ""), ("Copyable targets", "copyable"), ("New targets", "new"))


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    runs = Runs(cells)
    groups = [[row for row in group if _losses(runs, row, "")] for group in GROUPS]
    groups = [group for group in groups if group]
    rows = [(row, y) for row, y in zip((r for g in groups for r in g), _heights(groups))]

    bottom = max((y for _, y in rows), default=0) + 0.5 * ROW
    figure, all_axes = dot_columns([(row.label, y) for row, y in rows], bottom, len(COLUMNS) * COLUMN)
    for axes, (_, part) in zip(all_axes, PANELS):
        axes.axvline(0, color=style.VERMILION, lw=0.9, zorder=1)
        for row, y in rows:
            values = _losses(runs, row, part)
            if values:
                style.interval_mark(axes, values, y, row.color, row.marker)
    all_axes[1].set_xlabel("Test loss less that of the plain head, same seed (nats per token)")
    for i, (name, address, form) in enumerate(COLUMNS):
        numbers = {y: runs.mean(row.arm, address) for row, y in rows if not row.measure}
        number_column(all_axes[-1], i, name, {y: form(v) for y, v in numbers.items() if v is not None})
    return figure, _caption(sweep, cells, runs), cells


def _heights(groups: Sequence[Sequence[Row]]):
    y = 0.2 * ROW
    for group in groups:
        for _ in group:
            y += ROW
            yield y
        y += 0.45 * ROW


class Runs:
    """Finished cells by arm."""

    def __init__(self, cells: Sequence[Cell]):
        self.cells = [c for c in cells if c.done]

    def of(self, arm: str) -> list[Cell]:
        return sorted((c for c in self.cells if c.arm == arm), key=lambda c: c.seed)

    def with_partner(self, arm: str, partner: str) -> list[tuple[Cell, Cell]]:
        """Cells of an arm, each with that of another arm and the same seed."""
        return pairs(self.cells, arm, partner)

    def mean(self, arm: str, address: str) -> float | None:
        values = [c.value(address) for c in self.of(arm) if c.has(address)]
        return mean_interval(values).mean if values else None


def loss(cell: Cell, part: str = "") -> float:
    """Test loss, of all targets or of one slice of them."""
    return common.by_slice(cell, f"{LOSS}_by_slice", part) if part else cell.value(LOSS)


def gain(cell: Cell, measure: str, part: str = "") -> float:
    """What a baseline takes off the loss."""
    return common.by_slice(cell, f"{measure}/gain_by_slice", part) if part else cell.value(f"{measure}/gain")


def _losses(runs: Runs, row: Row, part: str) -> list[float]:
    """Loss of a row less that of the plain head, one number per seed."""
    if row.measure and not all(c.has(f"{row.measure}/gain") for c in runs.of(row.arm)):
        return []
    if row.arm == "vanilla" and not row.measure:
        return []
    return [loss(c, part) - loss(plain, part) - (gain(c, row.measure, part) if row.measure else 0.0)
            for c, plain in runs.with_partner(row.arm, "vanilla")]  # fmt: skip


def dot_columns(rows: Sequence[tuple[str, float]], bottom: float, right: float) -> tuple[Figure, list[Axes]]:
    """A dot plot with a panel for each slice of the targets: rows are (label, inches from the top), `right` inches are
    left free beside it."""
    left, gap, head, foot = 1.62, 0.10, 0.42, 0.46
    width, height = style.TEXT_WIDTH, head + bottom + foot
    panel = (width - left - right - gap * (len(PANELS) - 1) - 0.12) / len(PANELS)
    figure = style.plt.figure(figsize=(width, height))
    panels: list[Axes] = []
    for i, (title, _) in enumerate(PANELS):
        box = [(left + i * (panel + gap)) / width, foot / height, panel / width, bottom / height]
        axes = figure.add_axes(box, sharey=panels[0] if panels else None)
        axes.set_title(title, pad=4, size=8.5)
        axes.tick_params(axis="y", length=0, labelleft=i == 0)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        axes.locator_params(axis="x", nbins=4)
        panels.append(axes)
    panels[0].set_ylim(bottom, 0)
    panels[0].set_yticks([y for _, y in rows], [label for label, _ in rows])
    return figure, panels


def number_column(axes: Axes, index: int, name: str, numbers: dict[float, str]) -> None:
    """Column `index` of numbers right of a panel, at the rows' heights."""
    panel = axes.get_position().width * axes.figure.get_figwidth()
    x = 1 + (0.10 + (index + 0.55) * COLUMN) / panel
    axes.text(x, 1.0, name, transform=axes.transAxes, ha="center", va="bottom", size=7.5, style="italic", color=style.GREY)
    for y, number in numbers.items():
        axes.text(x, y, number, transform=axes.get_yaxis_transform(), ha="center", va="center", size=7)


def seeds_of(runs: Runs) -> str:
    count = {arm: len(runs.of(arm)) for arm in {c.arm for c in runs.cells}}
    low, high = min(count.values(), default=0), max(count.values(), default=0)
    n = f"{low}" if low == high else f"{low}–{high}"
    return f"n = {n} seed{'' if n == '1' else 's: dots are seeds, markers their mean, bars its 95 % t interval'}."


def _caption(sweep: Sweep, cells: Sequence[Cell], runs: Runs) -> str:
    parts = [f"{sweep.title or 'Output heads'}, preset {sweep.preset}. {seeds_of(runs)}"]
    vanilla = runs.of("vanilla")
    if vanilla:
        base = ", ".join(f"{part or 'all'} {mean_interval([loss(c, part) for c in vanilla]).mean:.3f}" for _, part in PANELS)
        parts.append(f"Losses of the plain head: {base} nats per token; {style.span({c.trained() for c in vanilla})} training tokens.")
    parts.append("Copyable: the target's token is in the context; the scales of the panels differ.")
    parts.append("Baselines on top of a trained model (grey) are tuned on the validation split.")
    parts.append("Params and step: against the plain head, the latter the ratio of the shortest training steps; gate and sink: test means (the pointer sentinel has no gate: 1).")
    return " ".join(filter(None, [*parts, left_out(cells)]))


def left_out(cells: Sequence[Cell]) -> str:
    """The last sentence: what is not there."""
    absent = sum(not c.done for c in cells)
    return f"{absent} of {len(cells)} cells have no result and are left out." if absent else ""
