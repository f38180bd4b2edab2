"""Stop gradient: what is left of the Copy-Paste head's gain when one path sends no gradient into the backbone."""

from __future__ import annotations

from matplotlib.figure import Figure

from .. import style
from ..results import Cell, Sweep
from ..stats import mean_interval
from . import common
from .heads import COLUMN, PANELS, ROW, Runs, dot_columns, gain, left_out, loss, number_column, seeds_of

BLOCKED = {
    "detach_q": "queries cut", "detach_k": "keys cut", "detach_both": "queries and keys cut", "detach_gate": "gate cut",
    "detach_lm": "LM head cut",
}  # fmt: skip
BASELINES = (("neural cache on plain", "neural_cache"), ("exact match on plain", "exact_match"))
ARMS = ("vanilla", "copy_paste", *BLOCKED)
SLICES = ("shown_once", "shown_more")


def draw(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """On text: what each takes off the plain head's loss, and the share of the Copy-Paste head's gain that this is."""
    cells, runs = _cells(sweep, allow_missing)
    arms = [arm for arm in ARMS[1:] if runs.of(arm)]
    labels = ["Copy-Paste, all gradients"] + [BLOCKED[arm] for arm in arms[1:]] + [label for label, _ in BASELINES]
    heights = [(i + 0.8 + 0.45 * (i > 0) + 0.45 * (i >= len(arms))) * ROW for i in range(len(labels))]
    figure, panels = dot_columns(list(zip(labels, heights)), heights[-1] + 0.7 * ROW, 2 * COLUMN + 0.12)
    shares: dict[str, dict[float, str]] = {}
    for axes, (_, part) in zip(panels, PANELS):
        whole = mean_interval(_gains(runs, "copy_paste", part)).mean
        axes.axvline(0, color=style.VERMILION, lw=0.9, zorder=1)
        axes.axvline(whole, color=style.BLUE, lw=0.9, zorder=1)
        rows = [(y, _gains(runs, arm, part), style.look(arm)) for arm, y in zip(arms, heights)]
        for (label, measure), y in zip(BASELINES, heights[len(arms) :]):
            rows.append((y, [gain(c, measure, part) for c in runs.of("vanilla")], style.Look(label, style.GREY, "P")))
        # Without the LM head's gradient the loss can be far off: that row is then named at the edge.
        others = [v for y, values, look in rows if look != style.look("detach_lm") for v in values] + [0.0]
        edge = min(others) - (max(others) - min(others))
        for y, values, look in rows:
            if mean_interval(values).mean < edge:
                axes.annotate(f"◂ −{-mean_interval(values).mean:.2f}", (0, y), (2, 0), textcoords="offset points", va="center",
                              xycoords=axes.get_yaxis_transform(), size=7.5, color=look.color)  # fmt: skip
            else:
                style.interval_mark(axes, values, y, look.color, look.marker)
        shares[part] = {y: f"{100 * mean_interval(values).mean / whole:.0f}%" for y, values, _ in rows}
    for i, (name, part) in enumerate((("all", ""), ("copyable", "copyable"))):
        number_column(panels[-1], i, name, shares[part])
    panels[1].set_xlabel("Test loss below that of the plain head, same seed (nats per token)")
    tokens = style.span({c.trained() for c in runs.of("vanilla")})
    caption = (
        f"{sweep.title or 'Blocked gradients'}, preset {sweep.preset}; {tokens} training tokens. The gradient of one path "
        "into the hidden states is cut; blue line: none is. Grey: copying without training, tuned on the validation split. "
        "Numbers at the right: share of the full gain over the plain head, of all and of copyable targets. "
    )
    return figure, f"{caption}{seeds_of(runs)} {left_out(cells)}".rstrip(), cells


def draw_spamlang(sweep: Sweep, allow_missing: bool = False) -> tuple[Figure, str, list[Cell]]:
    """On interleaved SpamLang: accuracy while training, and at the end by how often the symbol was shown."""
    cells, runs = _cells(sweep, allow_missing)
    arms = [arm for arm in ARMS if runs.of(arm)]
    looks = {arm: style.look(arm) for arm in arms}
    figure, (left, right) = style.page([style.Room()] * 2, [looks[arm].handle() for arm in arms])
    for arm in arms:
        points = common.over_training(runs.of(arm), "valid/accuracy")
        xs = sorted(points)
        left.plot(xs, [mean_interval(points[x]).mean for x in xs], **{**looks[arm].plot(), "markersize": 2.6})
    ceiling = mean_interval([c.value("test/ceiling") for c in runs.cells]).mean
    left.axhline(ceiling, color=style.GREY, lw=0.9, ls="--")
    left.annotate("ceiling", (0, ceiling), (3, 2), textcoords="offset points", xycoords=left.get_yaxis_transform(),
                  size=7.5, color=style.GREY)  # fmt: skip
    left.set_xlabel("Training tokens")
    left.locator_params(axis="x", nbins=4)
    left.xaxis.set_major_formatter(style.plain_numbers())
    style.percent(left, "Validation accuracy (%)")
    style.title(left, 0, "While training")

    for y, arm in enumerate(arms):
        for offset, name in zip((-0.17, 0.17), SLICES):
            values = [common.by_slice(c, "test/accuracy_by_slice", name) for c in runs.of(arm)]
            style.interval_mark(right, [100 * v for v in values], y + offset, looks[arm].color, "o" if offset < 0 else "D")
    right.set_ylim(len(arms) - 0.4, -0.6)
    right.set_yticks(range(len(arms)), [""] * len(arms))
    right.tick_params(axis="y", length=0)
    right.grid(axis="x")
    right.grid(visible=False, axis="y")
    right.set_xlim(-3, 105)
    right.set_xlabel("Test accuracy (%)")
    style.title(right, 1, "By how often it was shown")
    caption = (
        f"{sweep.title or 'Blocked gradients'}, preset {sweep.preset}. Copy-Paste heads differ in the path whose gradient "
        "into the backbone is cut; lines are means over seeds. Circles: symbols shown once before in the sequence; diamonds: "
        "more often. "
    )
    return figure, f"{caption}{seeds_of(runs)} {left_out(cells)}".rstrip(), cells


def _cells(sweep: Sweep, allow_missing: bool) -> tuple[list[Cell], Runs]:
    cells = common.reported(sweep, allow_missing)
    return cells, Runs(cells)


def _gains(runs: Runs, arm: str, part: str) -> list[float]:
    """What an arm takes off the plain head's loss, by seed."""
    return [loss(plain, part) - loss(c, part) for c, plain in runs.with_partner(arm, "vanilla")]
