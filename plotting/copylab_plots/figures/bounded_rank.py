"""Bounded rank: a head whose matrix has a low rank against one that only passes back a gradient of that rank."""

from __future__ import annotations

from typing import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import style
from ..compare import pairs, savings
from ..results import Cell, Sweep, grouped
from ..stats import mean_interval
from . import common

FORWARD_RANK, BACKWARD_RANK, LOSS = "head.rank", "head.backward_rank", "test/loss"
FORWARD = style.look("forward_rank")
BACKWARD = style.look("backward_rank")
PAPER_SHARE = (0.33, 0.69)  # of the forward gap, in the critique's own runs (papers: section 1.6)


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    return common.drawn(sweep, allow_missing, Data, PANELS, _caption, [FORWARD.handle(), BACKWARD.handle()])


class Data:
    """Runs by kind of bound and rank. A rank of 0 is no bound."""

    def __init__(self, sweep: Sweep, cells: Sequence[Cell]):
        self.sweep, self.cells = sweep, cells
        done = [c for c in cells if c.done]
        self.forward = grouped([c for c in done if c[FORWARD_RANK]], lambda c: c[FORWARD_RANK])
        self.backward = grouped([c for c in done if c[BACKWARD_RANK]], lambda c: c[BACKWARD_RANK])
        self.dense = [c for c in done if not c[FORWARD_RANK] and not c[BACKWARD_RANK]]
        self.ranks = sorted({*self.forward, *self.backward})

    def savings_of(self, cells: Sequence[Cell]) -> list[float]:
        """S over the factorised head of the lowest rank, per seed."""
        if not self.forward:
            return []
        lowest = self.forward[min(self.forward)]
        return savings(pairs([*lowest, *cells], cells[0].arm, lowest[0].arm))

    def gaps(self, cells: Sequence[Cell]) -> dict[int, float]:
        """Test loss beyond that of the dense head of the same seed."""
        dense = {c.seed: c.value(LOSS) for c in self.dense}
        return {c.seed: c.value(LOSS) - dense[c.seed] for c in cells if c.seed in dense}

    def shares(self) -> dict[int, list[float]]:
        """rank -> backward gap over forward gap, per seed."""
        found = {}
        for rank in sorted(set(self.forward) & set(self.backward)):
            forward, backward = self.gaps(self.forward[rank]), self.gaps(self.backward[rank])
            values = [backward[seed] / forward[seed] for seed in forward if seed in backward]
            if values:
                found[rank] = values
        return found


# ---- panels --------------------------------------------------------------------------------------------------


class Curves:
    title = "Loss of factorised heads"
    about = "validation loss by rank; the first evaluations lie above"

    def wanted(self, data: Data) -> bool:
        return bool(data.forward)

    def draw(self, data: Data, axes: Axes) -> None:
        colors = dict(zip(data.ranks, style.sequence(len(data.ranks))))
        every = [(f"{r}", cells, colors[r], "-") for r, cells in data.forward.items()]
        if data.dense:
            every.append(("dense", data.dense, style.INK, "--"))
        names, end, lows, tops = [], 0.0, [], []
        for name, cells, color, line in every:
            points = common.over_training(cells)
            style.smooth_curve(axes, points, color, line)
            means = [mean_interval(points[x]).mean for x in sorted(points)]
            end = max(points)
            names.append((end, means[-1], name, color))
            lows.append(min(means))
            tops.append(next((m for x, m in zip(sorted(points), means) if x >= 0.12 * end), means[0]))
        low, top = min(lows), max(tops)
        axes.set_ylim(low - 0.12 * (top - low), top)
        axes.set_xlim(0, end * 1.2)
        axes.locator_params(axis="x", nbins=4)
        style.end_labels(axes, names)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_xlabel("Training tokens")
        axes.set_ylabel("Validation loss (nats)")


class OverRank:
    """values(data, cells), one per seed, against the rank: a curve for each kind of bound."""

    def draw(self, data: Data, axes: Axes) -> None:
        style.log_ticks(axes, data.ranks, [str(r) for r in data.ranks])
        for look, groups in ((FORWARD, data.forward), (BACKWARD, data.backward)):
            style.curve(axes, {rank: self.values(data, cells) for rank, cells in groups.items()}, look)
        if data.dense:
            values = self.values(data, data.dense)
            if values:
                mean = mean_interval(values).mean
                axes.axhline(mean, color=style.INK, lw=1.0, ls="--", zorder=1)
                axes.annotate("dense", (0, mean), (3, 3), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
                              size=7.5)  # fmt: skip
        axes.set_xlabel("Rank")


class FinalLoss(OverRank):
    title = "Loss against rank"
    about = "test loss of the finished models"

    def wanted(self, data: Data) -> bool:
        return bool(data.ranks)

    def values(self, data: Data, cells: Sequence[Cell]) -> list[float]:
        return [c.value(LOSS) for c in cells]

    def draw(self, data: Data, axes: Axes) -> None:
        super().draw(data, axes)
        axes.set_ylabel("Test loss (nats)")


class Saving(OverRank):
    title = "Token saving over the lowest rank"
    about = (
        "token saving S over the factorised head of the lowest rank: its tokens up to the cooldown over those needed to the "
        "same validation loss"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.forward) and len(data.ranks) > 1

    def values(self, data: Data, cells: Sequence[Cell]) -> list[float]:
        return data.savings_of(cells)

    def draw(self, data: Data, axes: Axes) -> None:
        super().draw(data, axes)
        axes.margins(y=0.12)
        axes.set_ylabel("Token saving $S$")


class Share:
    title = "What the backward bound explains"
    about = (
        "loss of the backward-only bound beyond that of the dense head, over that of the factorised head of the same rank; "
        "shaded: the critique's 33 to 69 %"
    )

    def wanted(self, data: Data) -> bool:
        return bool(data.shares())

    def draw(self, data: Data, axes: Axes) -> None:
        shares = data.shares()
        style.log_ticks(axes, list(shares), [str(r) for r in shares])
        axes.axhspan(*PAPER_SHARE, color=style.FAINT, lw=0, zorder=0)
        style.curve(axes, shares, BACKWARD)
        axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
        axes.axhline(1, color=style.INK, lw=0.8, zorder=1)
        means = [mean_interval(values).mean for values in shares.values()]
        axes.set_ylim(min(-0.1, min(means) - 0.2), max(1.1, max(means) + 0.2))
        axes.yaxis.set_major_formatter(style.PercentFormatter(1.0, decimals=0, symbol=""))
        axes.set_xlabel("Rank")
        axes.set_ylabel("Backward gap / forward gap (%)")


PANELS = [Curves(), FinalLoss(), Saving(), Share()]


# ---- caption -------------------------------------------------------------------------------------------------


def _caption(data: Data, panels: Sequence) -> str:
    parts = [common.opening(data.sweep, data.cells), common.letters(panels)]
    parts += [_savings(data), _shares(data), common.closing(data.cells)]
    return " ".join(part for part in parts if part)


def _savings(data: Data) -> str:
    groups = [("forward", r, cells) for r, cells in data.forward.items() if r != min(data.forward)]
    groups += [("backward", r, cells) for r, cells in data.backward.items()]
    groups += [("dense", None, data.dense)] if data.dense else []
    parts = []
    for kind, rank, cells in groups:
        values = data.savings_of(cells)
        if values:
            parts.append(f"{kind}{'' if rank is None else f' {rank}'}: {common.plus_minus(values)}")
    return f"S: {'; '.join(parts)}." if parts else ""


def _shares(data: Data) -> str:
    parts = [f"{rank}: {common.plus_minus([100 * v for v in values], 0)} %" for rank, values in data.shares().items()]
    return f"Share by rank: {'; '.join(parts)}." if parts else ""
