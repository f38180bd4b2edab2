"""Means and t intervals against values from tables."""

import math

import pytest

from copylab_plots.stats import mean_interval, rank_correlation, t_quantile, t_test

# Two-sided quantiles of Student's t (Abramowitz & Stegun, table 26.10, and R's qt for more digits).
TABLE = [
    (0.95, 1, 12.7062047), (0.95, 2, 4.3026527), (0.95, 3, 3.1824463), (0.95, 4, 2.7764451), (0.95, 9, 2.2621572),
    (0.95, 10, 2.2281389), (0.95, 30, 2.0422725), (0.99, 2, 9.9248432), (0.99, 5, 4.0321430), (0.90, 7, 1.8945786),
]  # fmt: skip


@pytest.mark.parametrize("confidence, dof, expected", TABLE)
def test_quantiles_of_students_t(confidence, dof, expected):
    assert t_quantile(confidence, dof) == pytest.approx(expected, rel=1e-7)


def test_interval_of_three_seeds():
    mean, low, high, n = mean_interval([1.0, 2.0, 3.0])  # standard deviation 1, half width t / sqrt(3)
    assert (mean, n) == (2.0, 3)
    assert high - mean == pytest.approx(2.4841377)
    assert mean - low == pytest.approx(2.4841377)


def test_equal_values_have_a_width_of_zero():
    assert mean_interval([0.25] * 5) == (0.25, 0.25, 0.25, 5)


def test_one_seed_has_no_interval():
    mean, low, high, n = mean_interval([0.5])
    assert (mean, n) == (0.5, 1) and math.isnan(low) and math.isnan(high)


def test_p_values_of_the_t_test():
    for confidence, dof, t in TABLE:  # values of mean t and standard error 1
        away = math.sqrt((dof + 1) * dof / 2)
        values = [t - away, *[t] * (dof - 1), t + away]
        assert t_test(values) == pytest.approx(1 - confidence, rel=1e-6)
    assert t_test([1.0, -1.0]) == 1 and t_test([2.0, 2.0, 2.0]) == 0
    assert math.isnan(t_test([1.0])) and math.isnan(t_test([0.0, 0.0]))


def test_rank_correlation():
    assert rank_correlation([1, 2, 3, 4], [10, 20, 25, 1000]) == 1
    assert rank_correlation([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(0.6)  # 1 - 6 sum d^2 / (n (n^2 - 1))
    assert rank_correlation([1, 2, 2, 3], [3, 2, 2, 1]) == -1
    assert math.isnan(rank_correlation([1, 1], [1, 2]))


@pytest.mark.parametrize("call", [lambda: mean_interval([]), lambda: t_quantile(0.95, 0), lambda: t_quantile(1.0, 3), lambda: rank_correlation([1], [])])
def test_nonsense_is_refused(call):
    with pytest.raises(ValueError):
        call()
