"""Statistics over seeds: means, Student's t intervals and t-tests."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence


class Interval(NamedTuple):
    mean: float
    low: float
    high: float
    n: int


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean and t interval of independent values (seeds). One value has no interval: low and high are NaN."""
    n = len(values)
    if n == 0:
        raise ValueError("no values")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, math.nan, math.nan, 1)
    variance = math.fsum((v - mean) ** 2 for v in values) / (n - 1)
    half = t_quantile(confidence, n - 1) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, n)


def t_test(values: Sequence[float]) -> float:
    """Two-sided p value of a mean of zero for independent values; of paired differences: the paired t-test.
    NaN where there is no spread to judge by: for one value, and for zeros alone."""
    mean, _, high, n = mean_interval(values)
    if n < 2:
        return math.nan
    half = high - mean
    if half == 0:
        return 0.0 if mean else math.nan
    t = abs(mean) / half * t_quantile(0.95, n - 1)
    return 1 - _central_probability(math.atan(t / math.sqrt(n - 1)), n - 1)


def t_quantile(confidence: float, dof: int) -> float:
    """The t with P(|T| < t) = confidence for `dof` degrees of freedom, to about 1e-12."""
    if dof < 1 or not 0 < confidence < 1:
        raise ValueError(f"need dof >= 1 and 0 < confidence < 1: got {dof}, {confidence}")
    low, high = 0.0, math.pi / 2
    for _ in range(60):  # bisection on the angle theta = atan(t / sqrt(dof))
        middle = (low + high) / 2
        if _central_probability(middle, dof) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(dof) * math.tan((low + high) / 2)


def _central_probability(theta: float, dof: int) -> float:
    """P(|T| < sqrt(dof) tan(theta)): the finite series of Abramowitz & Stegun 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = dof % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, dof, 2):  # the factors are (k / (k+1)) cos^2
        total += term
        term *= k / (k + 1) * cosine * cosine
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def rank_correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Spearman's rho: the correlation of the ranks, ties with their mean rank. NaN where one side is constant."""
    a, b = (_ranks(values) for values in (xs, ys))
    if len(a) != len(b) or not a:
        raise ValueError(f"two series of one length expected: got {len(a)} and {len(b)}")
    middle = (len(a) - 1) / 2
    spread = [math.fsum((v - middle) ** 2 for v in ranks) for ranks in (a, b)]
    if min(spread) == 0:
        return math.nan
    return math.fsum((x - middle) * (y - middle) for x, y in zip(a, b)) / math.sqrt(spread[0] * spread[1])


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(v < value for v in values) + (sum(v == value for v in values) - 1) / 2 for value in values]
