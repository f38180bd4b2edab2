"""Pairs of runs, training curves and token savings."""

import math

import pytest
import synthetic

from copylab_plots import load_sweep
from copylab_plots.compare import Curve, cooldown, differences, pairs, savings, token_saving, training_curve

REFERENCE = Curve([0, 100, 200, 300, 400], [8, 6, 5, 4, 1])
FASTER = Curve([0, 100, 200, 300, 400], [8, 5, 3, 2.5, 1])
FALLING = Curve([0, 100, 300], [8, 4, 2])

# The cases of tests/experiments/verify/test_statistics.cpp: curve, reference, last tokens, S.
CASES = [
    (FASTER, REFERENCE, 399, 2.0),  # reaches 4 (the reference at 300) half way between 100 and 200
    (REFERENCE, REFERENCE, 399, 1.0),
    (REFERENCE, FASTER, 399, 0.5),  # the lowest value before the cooldown, 4, was the other's at 150, and it reached 300
    (Curve([0, 100, 200, 300], [8, 4, 7, 3]), REFERENCE, 300, 3.0),  # goes up again: the first crossing counts
    (Curve([0, 100, 300], [8, 9, 9]), REFERENCE, 300, 0.0),  # never lower than at the start
    (Curve([], []), REFERENCE, 300, math.nan),
    (REFERENCE, Curve([], []), 300, math.nan),
    (FALLING, FALLING, 250, 1.0),  # the last point before the cooldown, at 100, not a value between points
    (FALLING, REFERENCE, 300, 3.0),
    (Curve([0, 100], [4, 3]), REFERENCE, 300, math.nan),  # there from the start: no ratio
    (Curve([0, 70, 170], [7.9, 5.3, 3.7]), Curve([0, 90, 190], [8.1, 6.1, 4.2]), 190, 190 / (70 + 100 * 1.1 / 1.6)),
]


@pytest.mark.parametrize("curve, reference, last, expected", CASES)
def test_token_saving(curve, reference, last, expected):
    assert token_saving(curve, reference, last) == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_curves_must_ascend():
    for bad in (Curve([0, 200, 100], [3, 2, 1]), Curve([0, 100], [1])):
        with pytest.raises(ValueError, match="as many values as ascending tokens expected"):
            token_saving(bad, REFERENCE, 300)


def test_pairs_differ_in_the_arm_alone(tmp_path):
    synthetic.token_efficiency(tmp_path, seeds=(1, 2), absent={("vanilla", "sliding", 64, 2)})
    found = pairs(load_sweep(tmp_path, "token-efficiency"), "copy_paste", "vanilla")
    assert len(found) == 9
    for cell, partner in found:
        assert (cell.arm, partner.arm) == ("copy_paste", "vanilla")
        assert (cell.seed, cell.coordinates) == (partner.seed, partner.coordinates)
    cell, partner = found[0]
    expected = cell.value("test/loss") - partner.value("test/loss")
    assert differences(found[:1], "test/loss") == [expected]
    assert differences(found[:1], lambda c: 2 * c.value("test/loss")) == [2 * expected]


def test_savings_count_up_to_the_cooldown(tmp_path):
    synthetic.token_efficiency(tmp_path, seeds=(1,))
    cell, partner = pairs(load_sweep(tmp_path, "token-efficiency"), "copy_paste", "vanilla")[0]
    assert cooldown(cell) == 0.8 * synthetic.TOKENS
    curve = training_curve(cell)
    assert curve.tokens[-1] == synthetic.TOKENS and len(curve.values) == 21
    assert savings([(cell, partner)]) == [token_saving(curve, training_curve(partner), 0.8 * synthetic.TOKENS)]
