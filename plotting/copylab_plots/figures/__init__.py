"""Registry of figures: a name, the experiment it reads, and the function that draws it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from .. import style
from ..output import save
from ..results import ResultsError, load_sweep
from . import (
    bounded_rank,
    byte_level,
    copy_behaviour,
    gradient_channels,
    gradient_rank,
    greedy_loops,
    heads,
    induction,
    meta_tokens,
    psm_ablation,
    psm_copy_rate,
    psm_frequency,
    psm_wikitext2,
    psm_window,
    sizes,
    spamlang,
    stop_gradient,
    token_efficiency,
    update_depth,
    windows,
)


@dataclass(frozen=True)
class Entry:
    experiment: str
    draw: Callable  # draw(sweep, allow_missing) -> (figure, caption, cells used)


REGISTRY = {
    "spamlang": Entry("spamlang", spamlang.draw),
    "gradient-rank": Entry("gradient-rank", gradient_rank.draw),
    "token-efficiency": Entry("token-efficiency", token_efficiency.draw),
    "sizes": Entry("sizes", sizes.draw),
    "byte-level": Entry("byte-level", byte_level.draw),
    "gradient-channels": Entry("gradient-channels", gradient_channels.draw),
    "gradient-channels-135m": Entry("gradient-channels-135m", gradient_channels.draw),
    "copy-behaviour": Entry("copy-behaviour", copy_behaviour.draw),
    "bounded-rank": Entry("bounded-rank", bounded_rank.draw),
    "windows": Entry("windows", windows.draw),
    "heads": Entry("heads", heads.draw),
    "stop-gradient": Entry("stop-gradient", stop_gradient.draw),
    "stop-gradient-spamlang": Entry("stop-gradient-spamlang", stop_gradient.draw_spamlang),
    "update-depth": Entry("update-depth", update_depth.draw),
    "greedy-loops": Entry("greedy-loops", greedy_loops.draw),
    "induction": Entry("induction", induction.draw),
    "induction-text": Entry("induction-text", induction.draw),
    **{name: Entry(name, draw) for name, draw in meta_tokens.DRAWINGS.items()},
    "psm-wikitext2": Entry("psm-wikitext2", psm_wikitext2.draw),
    "psm-frequency": Entry("psm-frequency", psm_frequency.draw),
    "psm-window": Entry("psm-window", psm_window.draw),
    "psm-ablation": Entry("psm-ablation", psm_ablation.draw),
    "psm-copy-rate": Entry("psm-copy-rate", psm_copy_rate.draw),
    "psm-generation": Entry("psm-generation", greedy_loops.draw),
}


def make(name: str, results: Path, to: Path | None, preset: str | None, allow_missing: bool) -> list[Path]:
    """Draws one figure and returns the files written; by default into the experiment's own folder."""
    if name not in REGISTRY:
        raise ResultsError(f"no figure is called {name}; there are: {', '.join(REGISTRY)}")
    entry = REGISTRY[name]
    sweep = load_sweep(results, entry.experiment, preset)
    with style.house_style():
        figure, caption, cells = entry.draw(sweep, allow_missing)
        return save(figure, name, caption, sweep, cells, to or results / entry.experiment)
