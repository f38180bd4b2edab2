"""Arms against each other: runs that differ in the arm alone, their training curves and token savings."""

from __future__ import annotations

import math
from typing import Callable, Iterable, NamedTuple, Sequence

import numpy as np

from .results import Cell


class Curve(NamedTuple):
    """A value that training lowers, after a number of tokens; tokens ascend."""

    tokens: Sequence[float]
    values: Sequence[float]

    def until(self, last: float) -> Curve:
        n = int(np.searchsorted(self.tokens, last, side="right"))
        return Curve(self.tokens[:n], self.values[:n])


def training_curve(cell: Cell, address: str = "valid/loss") -> Curve:
    return Curve(cell.array(f"{address.rpartition('/')[0]}/tokens").values, cell.array(address).values)


def cooldown(cell: Cell) -> float:
    """Tokens after which the learning rate of a finished run decays."""
    decay = cell["train.decay"] if cell["train.schedule"] == "wsd" else 0.0
    return cell.trained("tokens") * (1.0 - decay)


def token_saving(curve: Curve, reference: Curve, last_tokens: float) -> float:
    """S = N_reference / N, as `copylab verify` computes it. N_reference is the last point of `reference` at or
    before `last_tokens` (the start of the cooldown), N the tokens at which `curve` first comes down to the
    reference's value there, interpolated linearly between points. Where `curve` does not come down to it before
    `last_tokens`, the roles are exchanged: S = (tokens at which the reference first reached the lowest value of
    `curve`) / N_reference, below 1. NaN where neither is defined."""
    for tokens, values in (curve, reference):
        if len(tokens) != len(values) or any(a > b for a, b in zip(tokens, tokens[1:])):
            raise ValueError(f"as many values as ascending tokens expected: got {len(values)} and {len(tokens)}")
    own, other = curve.until(last_tokens), reference.until(last_tokens)
    if not len(own.tokens) or not len(other.tokens):
        return math.nan
    reached = float(other.tokens[-1])
    tokens = first_at(own, other.values[-1])
    if tokens is not None:
        return reached / tokens if tokens > 0 else math.nan
    tokens = first_at(other, min(own.values))
    return tokens / reached if tokens is not None and reached > 0 else math.nan


def first_at(curve: Curve, value: float) -> float | None:
    """Tokens at which the curve first is at or below `value`, interpolated; None where it never is."""
    tokens, values = (np.asarray(column, dtype=float) for column in curve)
    below = np.flatnonzero(values <= value)
    if not len(below):
        return None
    i = int(below[0])
    if i == 0:
        return float(tokens[0])
    share = (values[i - 1] - value) / (values[i - 1] - values[i])
    return float(tokens[i - 1] + share * (tokens[i] - tokens[i - 1]))


def pairs(cells: Iterable[Cell], arm: str, against: str, but: str = "") -> list[tuple[Cell, Cell]]:
    """Finished cells of `arm`, each with the cell of the other arm that has the same seed and coordinates, `but` one
    that each arm has chosen for itself. Cells without such a partner are left out."""

    def key(cell: Cell) -> tuple:
        return cell.seed, *sorted(item for item in cell.coordinates.items() if item[0] != but)

    cells = [c for c in cells if c.done]
    partner = {key(c): c for c in cells if c.arm == against}
    return [(c, partner[key(c)]) for c in cells if c.arm == arm and key(c) in partner]


def differences(found: Iterable[tuple[Cell, Cell]], value: Callable[[Cell], float] | str) -> list[float]:
    """What each cell has more than its partner; `value` is an address or a function of the cell."""
    of = (lambda cell: cell.value(value)) if isinstance(value, str) else value
    return [of(cell) - of(partner) for cell, partner in found]


def savings(found: Iterable[tuple[Cell, Cell]], address: str = "valid/loss") -> list[float]:
    """The token saving of each cell over its partner, before the cooldown; without those that are undefined."""
    found = [token_saving(training_curve(cell, address), training_curve(partner, address), cooldown(cell))
             for cell, partner in found]  # fmt: skip
    return [saving for saving in found if math.isfinite(saving)]
