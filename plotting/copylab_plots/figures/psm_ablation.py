"""Parts of the pointer sentinel: loss against the plain LSTM's with one part changed, the gate, and rare words."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

PLAIN = "lstm"
ARMS = {
    "psm": "pointer sentinel",
    "no_auxiliary": "no auxiliary loss",
    "sigmoid_gate": "sigmoid gate",
    "constant_gate": "constant gate",
    "no_projection": "no projection",
    "sentinel_zero": "sentinel starts at 0",
    "sentinel_tenth": "… at std 0.1",
    "sentinel_one": "… at std 1",
    "pointer_only": "pointer alone",
}
SENTINELS = {"sentinel_zero": "0", "psm": "0.01", "sentinel_tenth": "0.1", "sentinel_one": "1"}
SEGMENTS = {PLAIN: style.look(PLAIN), "psm": style.look("psm"), "pointer_only": style.Look("pointer alone", style.PURPLE, "v")}


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, [look.handle() for look in SEGMENTS.values()])


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        self.done = [c for c in cells if c.done]

    def of(self, arm: str) -> list[Cell]:
        return [c for c in self.done if c.arm == arm]

    def losses(self, arm: str) -> list[float]:
        return differences(pairs(self.done, arm, PLAIN), "test/loss")

    def values(self, arm: str, address: str) -> list[float]:
        return [c.value(address) for c in self.of(arm) if c.has(address)]


class Losses:
    title = "Loss"
    about = (
        "test loss less that of the plain LSTM of the same seed; not drawn: the pointer alone, whose vocabulary's share goes to "
        "all words alike (see below)"
    )

    def wanted(self, data: Data) -> bool:
        return bool(self._rows(data))

    def _rows(self, data: Data) -> list[str]:
        return [arm for arm in ARMS if arm != "pointer_only" and data.losses(arm)]

    def draw(self, data: Data, axes: Axes) -> None:
        rows = self._rows(data)
        common.rows_axis(axes, ["" for _ in rows], reference=0)
        for i, arm in enumerate(rows):
            color = style.GREEN if arm == "psm" else style.SKY
            y = len(rows) - 1 - i
            style.interval_mark(axes, data.losses(arm), y, color, "D" if arm == "psm" else "o")
            axes.annotate(ARMS[arm], (mean_interval(data.losses(arm)).mean, y), (0, 4), textcoords="offset points",
                          ha="center", size=6.5)  # fmt: skip
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.25)
        axes.set_xlabel("Test loss less the plain LSTM's (nats)")


class Gate:
    title = "The vocabulary's share"
    about = "mean g over training, for initial sentinels of several standard deviations"

    def wanted(self, data: Data) -> bool:
        return any(c.has("pointer_distance/training/g") for arm in SENTINELS for c in data.of(arm))

    def draw(self, data: Data, axes: Axes) -> None:
        labels = []
        for (arm, std), color in zip(SENTINELS.items(), style.sequence(len(SENTINELS))):
            arrays = [c.array("pointer_distance/training/g") for c in data.of(arm) if c.has("pointer_distance/training/g")]
            points = {step + 1: values for step, values in common.over(arrays, "step").items()}
            if points:
                style.smooth_curve(axes, points, color, label=f"std {std}")
                labels.append((max(points), mean_interval(points[max(points)]).mean, std, color))
        axes.set_xscale("log")
        style.percent(axes, "g (%)")
        axes.set_xlabel("Update + 1")
        style.end_labels(axes, labels)


class Positions:
    title = "The current position"
    about = "weight of the current position among all positions of the pointer, and how often it is the heaviest (open)"

    def wanted(self, data: Data) -> bool:
        return any(data.values(arm, "pointer_distance/self_mass") for arm in ARMS)

    def draw(self, data: Data, axes: Axes) -> None:
        rows = [arm for arm in ARMS if data.values(arm, "pointer_distance/self_mass")]
        common.rows_axis(axes, ["" for _ in rows])
        for i, arm in enumerate(rows):
            y = len(rows) - 1 - i
            color = style.GREEN if arm == "psm" else style.SKY
            style.interval_mark(axes, data.values(arm, "pointer_distance/self_mass"), y, color, "o")
            style.interval_mark(axes, data.values(arm, "pointer_distance/self_top"), y, color, "o", filled=False)
            axes.annotate(ARMS[arm], (0.3, y), xycoords=axes.get_yaxis_transform(), ha="left", va="center", size=6.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(-0.03, 1.05)
        axes.set_xlabel("Share")


class Segments:
    title = "Rare words"
    about = "test loss in segments of 50 words, by their share of rare words"

    def wanted(self, data: Data) -> bool:
        return any(c.has("word_frequency/loss_by_segment") for c in data.done)

    def draw(self, data: Data, axes: Axes) -> None:
        for arm, look in SEGMENTS.items():
            cells = [c for c in data.of(arm) if c.has("word_frequency/loss_by_segment")]
            if not cells:
                continue
            rates = [c.array("word_frequency/rare_by_segment").values for c in cells]
            losses = [c.array("word_frequency/loss_by_segment").values for c in cells]
            groups = range(len(rates[0]))
            points = {float(sum(r[i] for r in rates)) / len(rates) * 100: [float(x[i]) for x in losses] for i in groups}
            style.curve(axes, points, look)
        axes.set_xlabel("Rare words (%)")
        axes.set_ylabel("Test loss (nats)")


PANELS = [Losses(), Gate(), Positions(), Segments()]


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    words = [f"{name} {common.plus_minus(data.losses(arm), 3, sign=True)}" for arm, name in ARMS.items() if data.losses(arm)]
    if words:
        parts.append(f"Loss less the plain LSTM's, nats: {', '.join(words)}.")
    shares = [
        f"{name} {100 * mean_interval(data.values(arm, 'pointer_distance/g')).mean:.0f}"
        for arm, name in ARMS.items() if data.values(arm, "pointer_distance/g")
    ]  # fmt: skip
    if shares:
        parts.append(f"Mean g at the end, percent: {', '.join(shares)}.")
    parts.append(common.closing(data.cells))
    return " ".join(part for part in parts if part)
