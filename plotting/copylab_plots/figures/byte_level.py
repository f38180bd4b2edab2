"""Byte level: what a Copy-Paste head gains against the vocabulary's size and the gradient lost in the head."""

from __future__ import annotations

from typing import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import differences, pairs, savings
from ..results import Cell, Sweep
from ..stats import mean_interval, rank_correlation
from . import common

LEVEL, VOCAB, WIDTH = "task.level", "task.vocab", "model.dim"
BITS, LOST = "test/bits_per_byte", "head_gradient/r"
PLAIN, COPY = style.look("vanilla"), style.look("copy_paste")


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption)


class Setting:
    """The pairs of Copy-Paste and plain runs at one vocabulary and width."""

    def __init__(self, found: list[tuple[Cell, Cell]]):
        self.pairs = found
        self.level, self.vocab, self.width = (found[0][0][path] for path in (LEVEL, VOCAB, WIDTH))
        self.ratio = self.vocab / self.width
        self.gain = differences(found, BITS)
        lost = [plain.value(LOST) for _, plain in found if plain.has(LOST)]
        self.lost = mean_interval(lost).mean if lost else None

    @property
    def what(self) -> str:
        return "bytes" if self.level == "byte" else f"{self.vocab:,}"

    @property
    def name(self) -> str:
        return f"{'bytes' if self.level == 'byte' else f'BPE {self.vocab:,}'}, D = {self.width}"


class Data:
    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        found: dict[tuple, list] = {}
        for pair in pairs(cells, "copy_paste", "vanilla"):
            if pair[0].has(BITS):
                found.setdefault((pair[0][VOCAB] / pair[0][WIDTH], pair[0][WIDTH], pair[0][LEVEL]), []).append(pair)
        self.settings = [Setting(found[key]) for key in sorted(found)]
        self.widths = sorted({s.width for s in self.settings})
        self.vocabs = sorted({s.vocab for s in self.settings})

    def look(self, width: int) -> style.Look:
        """One width is drawn solid, wider ones open and dashed."""
        markers = ("o", "D", "^", "s")
        i = self.widths.index(width)
        return style.Look(f"$D$ = {width}", style.BLUE, markers[i % 4], i == 0, "-" if i == 0 else (0, (4, 1.6)))

    def curves(self, axes: Axes, x: Callable[[Setting], float | None], y: Callable[[Setting], Sequence[float]]) -> None:
        """A curve per width; y of a setting is one value per seed."""
        for width in self.widths:
            points = {x(s): y(s) for s in self.settings if s.width == width and x(s) is not None}
            style.curve(axes, points, self.look(width))


# ---- panels --------------------------------------------------------------------------------------------------


class Gain:
    title = "Gain against vocabulary"
    about = (
        "bits per byte of test text of the Copy-Paste model less those of the plain one, against V/D; labels: V of the BPE; "
        "shaded: V ≤ D, where the head loses nothing"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.settings)

    def draw(self, data: Data, axes: Axes) -> None:
        data.curves(axes, lambda s: s.ratio, lambda s: s.gain)
        _ratio_axis(data, axes)
        axes.margins(y=0.14)
        for setting in data.settings:
            above = setting.width != data.widths[0]
            axes.annotate(setting.what, (setting.ratio, mean_interval(setting.gain).mean), (0, 6 if above else -6),
                          textcoords="offset points", ha="center", va="bottom" if above else "top", size=7.5, color=style.GREY)  # fmt: skip
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_ylabel("Difference (bits per byte)")
        style.headroom(axes, 0.12)
        axes.legend(loc="upper right", ncol=len(data.widths), handlelength=1.8, columnspacing=1.0, borderaxespad=0.1)


class GainOverLost:
    title = "Gain against lost gradient"
    about = "the same against the share r of the logit gradient's norm that the plain head loses"

    def wanted(self, data: Data) -> bool:
        return any(s.lost is not None for s in data.settings)

    def draw(self, data: Data, axes: Axes) -> None:
        data.curves(axes, lambda s: s.lost, lambda s: s.gain)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.set_xlim(-0.04, 1.04)
        axes.set_xlabel("Lost share $r$, plain model")
        axes.set_ylabel("Difference (bits per byte)")


class Saving:
    title = "Token saving against vocabulary"
    about = "token saving S: tokens of the plain model up to the cooldown over those that the Copy-Paste model needs to the same loss"

    def wanted(self, data: Data) -> bool:
        return any(savings(s.pairs) for s in data.settings)

    def draw(self, data: Data, axes: Axes) -> None:
        data.curves(axes, lambda s: s.ratio, lambda s: savings(s.pairs))
        axes.axhline(1, color=style.INK, lw=0.8, zorder=1)
        _ratio_axis(data, axes)
        axes.set_ylabel("Token saving $S$")


class Levels:
    title = "Bits per byte"
    about = "bits per byte of both arms; models of different depth and width are not comparable with each other"

    def wanted(self, data: Data) -> bool:
        return bool(data.settings)

    def draw(self, data: Data, axes: Axes) -> None:
        for row, setting in enumerate(reversed(data.settings)):
            for look, side, y in ((COPY, 0, row + 0.14), (PLAIN, 1, row - 0.14)):
                style.interval_mark(axes, [pair[side].value(BITS) for pair in setting.pairs], y, look.color, look.marker)
        common.rows_axis(axes, [s.name.replace("D =", "$D$ =").replace(", ", ",\n") for s in data.settings])
        axes.set_xlabel("Bits per byte of test text")
        common.legend_on_top(axes, [common.mark(look.label, look.color, look.marker) for look in (PLAIN, COPY)])


PANELS = [Gain(), GainOverLost(), Saving(), Levels()]


def _ratio_axis(data: Data, axes: Axes) -> None:
    ratios = sorted({s.ratio for s in data.settings})
    style.log_ticks(axes, ratios, [style.short(ratio) for ratio in ratios])
    low, high = axes.get_xlim()
    if ratios[0] <= 1:
        axes.axvspan(low, 2**0.5 if len(ratios) > 1 else high, color=style.FAINT, alpha=0.6, lw=0, zorder=0)
    axes.set_xlim(low, high)
    axes.set_xlabel("$V/D$")


# ---- caption -------------------------------------------------------------------------------------------------


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    parts += [_gains(data), _share(data), _order(data), common.closing(data.cells)]
    return " ".join(part for part in parts if part)


def _gains(data: Data) -> str:
    def one(setting: Setting) -> str:
        lost = f" (r = {setting.lost:.3f})" if setting.lost is not None else ""
        return f"{setting.name}{lost} {common.plus_minus(setting.gain, 4, sign=True)}"

    return f"Differences: {'; '.join(map(one, data.settings))}." if data.settings else ""


def _share(data: Data) -> str:
    """The gain where V <= D as a share of that with the largest BPE of the same width (C31)."""
    parts = []
    for bytewise in (s for s in data.settings if s.vocab <= s.width):
        peers = [s for s in data.settings if s.level != "byte" and s.width == bytewise.width]
        if peers:
            own, other = (-mean_interval(s.gain).mean for s in (bytewise, peers[-1]))
            parts.append(f"{bytewise.name} gains {100 * own / other:.0f} % of what {peers[-1].name} gains".replace("-", "−"))
    return f"{'; '.join(parts)}." if parts else ""


def _order(data: Data) -> str:
    """Whether the gain grows with r (X6)."""
    known = [s for s in data.settings if s.lost is not None]
    if len(known) < 3:
        return ""
    gains = [-mean_interval(s.gain).mean for s in known]
    return f"Rank correlation of gain and r over the {len(known)} settings: {common.signed(rank_correlation(gains, [s.lost for s in known]), 2)}."
