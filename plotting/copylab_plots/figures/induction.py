"""Induction: who copies random tokens that are shown twice, the attention heads or the pointer."""

from __future__ import annotations

from collections import defaultdict
from typing import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from .. import style
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common

BLUES = style.matplotlib.colormaps["Blues"]


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    cells = common.reported(sweep, allow_missing)
    data = Data(cells)
    maps = [ScoreMap(arm) for arm in data.arms]
    panels = [LossByBlock(), HeadCounts(), *maps, OverTraining(), Knockouts()]
    figure, panels = common.draw_panels(panels, data, [style.look(arm).handle() for arm in data.arms])
    return figure, _caption(sweep, data, panels), cells


class Data:
    def __init__(self, cells: Sequence[Cell]):
        self.cells = cells
        self.done = [c for c in cells if c.done]
        self.absent = [c for c in cells if not c.done]
        self.arms = list(dict.fromkeys(c.arm for c in cells))

    def of(self, arm: str, address: str) -> list[Cell]:
        return [c for c in self.done if c.arm == arm and c.has(address)]

    def pointer_arms(self, address: str) -> list[str]:
        return [arm for arm in self.arms if self.of(arm, address)]

    def have(self, address: str) -> bool:
        return bool(self.pointer_arms(address))


# ---- panels --------------------------------------------------------------------------------------------------


class LossByBlock:
    title = "Loss on the second copy"
    about = (
        "loss of the tokens that can be told from the copy before, against the length of the block; dashed: the LM head "
        "of the same model without its pointer"
    )

    def wanted(self, data: Data) -> bool:
        return data.have("induction/nll")

    def draw(self, data: Data, axes: Axes) -> None:
        blocks = set()
        for arm in data.arms:
            look = style.look(arm)
            for name, drawn in (("nll", look), ("no_copy_nll", style.Look("", look.color, look.marker, False, (0, (4, 1.6))))):
                points = common.over((c.array(f"induction/{name}") for c in data.of(arm, f"induction/{name}")), "block")
                # A loss of zero has no place on a log axis.
                style.curve(axes, {x: [max(y, 1e-5) for y in ys] for x, ys in points.items()}, drawn, bounds=(1e-5, np.inf))
                blocks |= set(points)
        for y, line, text in ((data.done[0].value("induction/nll_uniform"), (0, (1, 1)), "uniform guess"), (0.1, "-", "0.1")):
            axes.axhline(y, color=style.GREY, lw=0.8, ls=line)
            axes.annotate(text, (1, y), (0, 2), textcoords="offset points", xycoords=axes.get_yaxis_transform(),
                          ha="right", color=style.GREY, size=7.5)  # fmt: skip
        axes.set_yscale("log")
        style.log_ticks(axes, sorted(blocks), style.count_labels(sorted(blocks)))
        axes.set_xlabel("Block length $T$ (tokens)")
        axes.set_ylabel("Loss (nats)")


class HeadCounts:
    title = "Induction heads"
    about = "attention heads with an induction score above a threshold; lines: medians over seeds"

    def wanted(self, data: Data) -> bool:
        return data.have("induction/heads_above")

    def draw(self, data: Data, axes: Axes) -> None:
        heads = 0.0
        for i, arm in enumerate(data.arms):
            cells, look = data.of(arm, "induction/heads_above"), style.look(arm)
            points = common.over((c.array("induction/heads_above") for c in cells), "threshold")
            if not points:
                continue
            heads = max(heads, *(c.value("induction/heads") for c in cells))
            axes.plot(sorted(points), [np.median(points[x]) for x in sorted(points)], zorder=4, **look.plot())
            if len(cells) > 1:  # seeds with equal counts would hide each other
                shift = 0.008 * (i - (len(data.arms) - 1) / 2)
                seeds = [(x + shift, y) for x, ys in points.items() for y in ys]
                axes.plot(*zip(*seeds), ls="none", marker=".", ms=3.2, mew=0, color=look.color, alpha=0.75, zorder=3)
        axes.set_xticks(sorted(points))
        axes.set_ylim(bottom=-0.04 * axes.get_ylim()[1])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("Threshold of the induction score")
        axes.set_ylabel(f"Heads (of {heads:.0f})")


class ScoreMap:
    def __init__(self, arm: str):
        self.arm = arm
        self.title = f"Scores, {style.look(arm).label}"
        self.about = "induction scores, heads sorted within each layer, then means over seeds"

    def wanted(self, data: Data) -> bool:
        return bool(data.of(self.arm, "induction/score"))

    def draw(self, data: Data, axes: Axes) -> None:
        cells = data.of(self.arm, "induction/score")
        scores = np.mean([-np.sort(-c.array("induction/score").values, axis=1) for c in cells], axis=0)
        layers, heads = scores.shape
        for (layer, head), score in np.ndenumerate(scores):
            self._box(axes, head, layer, 1, score, f"{score:.2f}" if heads <= 8 else "")
        pointers = data.of(self.arm, "induction/copy_head_score")
        if pointers:
            score = np.mean([c.value("induction/copy_head_score") for c in pointers])
            gated = np.mean([c.value("induction/copy_head_gated_score") for c in pointers])
            self._box(axes, 0, layers + 0.15, heads, score, f"copy head {score:.2f}, times gate {gated:.2f}")
        axes.set_xlim(0, heads)
        axes.set_ylim(0, layers + (1.15 if pointers else 0))
        axes.set_xticks(np.arange(heads) + 0.5, range(1, heads + 1))
        axes.set_yticks(np.arange(layers) + 0.5, range(1, layers + 1))
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.set_xlabel("Head, by falling score")
        axes.set_ylabel("Layer")

    @staticmethod
    def _box(axes: Axes, x: float, y: float, width: float, score: float, text: str) -> None:
        axes.add_patch(Rectangle((x, y), width, 1, facecolor=BLUES(0.9 * score), edgecolor="white", lw=1.0))
        axes.text(x + width / 2, y + 0.5, text, ha="center", va="center", size=7.5, color="white" if score > 0.6 else style.INK)


class OverTraining:
    title = "Scores while training"
    about = "largest induction score of an attention head; dashed: score of the copy head"

    def wanted(self, data: Data) -> bool:
        return data.have("induction/training/score")

    def draw(self, data: Data, axes: Axes) -> None:
        steps = set()
        for arm in data.arms:
            look = style.look(arm)
            dashed = style.Look("", look.color, look.marker, False, (0, (4, 1.6)))
            for name, drawn in (("score_best", look), ("copy_head_score", dashed)):
                address = f"induction/training/{name}"
                points = common.over((c.array(address) for c in data.of(arm, address)), "step")
                style.curve(axes, points, drawn, bounds=(0, 1))
                steps |= set(points)
        axes.set_xscale("symlog", linthresh=max(1.0, min(s for s in steps if s > 0)), linscale=0.5)
        axes.xaxis.set_major_formatter(style.plain_numbers())
        axes.set_ylim(-0.03, 1.05)
        axes.set_xlabel("Updates")
        axes.set_ylabel("Induction score")


class Knockouts:
    title = "What is lost without it"
    about = (
        "rise of the loss on the second copy when the k heads of the highest induction score are switched off, or as many of "
        "the lowest, or the pointer"
    )

    def wanted(self, data: Data) -> bool:
        return data.have("head_knockout/top_repeat_change")

    def draw(self, data: Data, axes: Axes) -> None:
        rows: dict[str, dict[str, list[float]]] = defaultdict(dict)
        for arm in data.arms:
            cells = data.of(arm, "head_knockout/top_repeat_change")
            for name, text in (("top_repeat_change", "top {:.0f}"), ("bottom_repeat_change", "lowest {:.0f}")):
                points = common.over((c.array(f"head_knockout/{name}") for c in cells), "top")
                kept = sorted(points) if name == "top_repeat_change" else sorted(points)[-1:]
                for k in kept:
                    rows[text.format(k)][arm] = points[k]
        for arm in data.pointer_arms("head_knockout/no_copy_repeat_change"):
            cells = data.of(arm, "head_knockout/no_copy_repeat_change")
            rows["pointer"][arm] = [c.value("head_knockout/no_copy_repeat_change") for c in cells]
        thick = 0.8 / max(1, len(data.arms))
        for row, by_arm in enumerate(rows.values()):
            for slot, arm in enumerate(a for a in data.arms if a in by_arm):
                y = row + (slot - (len(by_arm) - 1) / 2) * thick
                look, values = style.look(arm), by_arm[arm]
                mean, low, high, n = mean_interval(values)
                axes.barh(y, mean, 0.92 * thick, color=look.color, alpha=0.55, zorder=2)
                if n > 1:
                    axes.plot([low, high], [y, y], color=look.color, lw=1.2, solid_capstyle="butt", zorder=3)
                    axes.plot(values, [y] * n, ls="none", marker=".", ms=3.4, mew=0, color=style.INK, zorder=4)
        axes.axvline(0, color=style.INK, lw=0.6, zorder=1)
        axes.set_yticks(range(len(rows)), rows)
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("Rise of the loss on repeats (nats)")
        axes.set_ylabel("Switched off")


def _caption(sweep: Sweep, data: Data, panels: Sequence) -> str:
    parts = [f"{sweep.title or 'Induction'}, preset {sweep.preset}."]
    if data.done:
        first = data.done[0]
        seeds = sorted({sum(c.arm == arm for c in data.cells) for arm in data.arms})
        n = "–".join(map(str, seeds))
        parts.append(
            f"D = {first['model.dim']}, {first['model.layers']} layers of {first['model.heads']} heads; "
            f"{style.span({c.trained('tokens') for c in data.done})} tokens per run; "
            f"scores at T = {style.span({c.value('induction/score_block') for c in data.done})}."
        )
        parts.append(f"n = {n} seed{'' if n == '1' else 's: dots are seeds, lines their mean, bands and bars its 95 % t interval'}.")
    parts.append(common.letters(panels))
    if data.absent:
        parts.append(f"Without a result: {len(data.absent)} cells.")
    return " ".join(parts)
