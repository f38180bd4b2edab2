"""Figures of the pointer sentinel experiments: they show the stored numbers, paired by seed."""

import math
import random

import numpy as np
import pytest
import synthetic

from copylab_plots import load_sweep, style
from copylab_plots.figures import psm_ablation, psm_copy_rate, psm_frequency, psm_wikitext2, psm_window
from copylab_plots.figures import REGISTRY
from copylab_plots.stats import mean_interval

SEEDS = (1, 2, 3)
BASE = {**synthetic.BASE, "task.name": "text", "task.corpus": "wikitext-2", "model.dim": 128}
TENTHS = [10.0 * (i + 1) for i in range(10)]


@pytest.fixture(autouse=True)
def house_style():
    with style.house_style():
        yield
    style.plt.close("all")


def frequency(noise, gain):
    """Losses by frequency, reach and segment; the gain grows with rarity, and is there only within the window."""
    jitter = 0.01 * noise.random()
    return {
        "word_frequency/loss_by_bucket": ([2 + i - gain * i / 10 + jitter for i in range(10)], {}),
        "word_frequency/loss_near": 4 - gain, "word_frequency/loss_far": 5.0, "word_frequency/loss_never": 7.0 + 0.1 * gain,
        "word_frequency/rare_loss_near": 9 - 5 * gain, "word_frequency/rare_loss_far": 10.0,
        "word_frequency/rare_loss_never": 11.0,
        "word_frequency/loss_by_segment": ([4 - gain * i + jitter for i in range(4)], {}),
        "word_frequency/rare_by_segment": ([0.01 * i for i in range(4)], {}),
    }  # fmt: skip


def pointer(noise, g):
    right = [0.02 / (i + 1) for i in range(10)]
    steps = [0, 1, 10, 100]
    return {
        "pointer_distance/g": g, "pointer_distance/g_copyable": g - 0.1, "pointer_distance/g_new": g + 0.1 * noise.random(),
        "pointer_distance/self_mass": 0.1, "pointer_distance/self_top": 0.05,
        "pointer_distance/right_mass": (right, {"distance": TENTHS}),
        "pointer_distance/even_mass": ([0.003] * 10, {"distance": TENTHS}),
        "pointer_distance/training/g": ([0.5, 0.6, 0.7, g], {"step": steps}),
    }  # fmt: skip


def write(results, experiment, arms, extra, corpora=("wikitext-2",)):
    """extra(arm, noise, corpus) -> what a run measured besides its losses, and its change of the loss."""
    noise, builder = random.Random(5), synthetic.Builder(results, experiment, "quick")
    for seed in SEEDS:
        common = 0.1 * noise.gauss(0, 1)
        for corpus in corpora:
            for arm, config in arms.items():
                measured, change = extra(arm, noise, corpus)
                loss = 5 + common + change + 0.01 * noise.gauss(0, 1)
                measured = {"test/loss": loss, "valid/tokens": [1e5, 2e5], "valid/loss": [6, loss], **measured}
                builder.add(arm, {"task.corpus": corpus}, seed, {**BASE, **config}, measured)
    builder.write(title=experiment, command=f"copylab run {experiment}")
    return load_sweep(results, experiment)


def marks(axes):
    return sorted(float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1)


def paired(sweep, arm, **where):
    by_key = {(c.arm, c.seed): c for c in sweep.select(**where)}
    return [by_key[arm, s].value("test/loss") - by_key["lstm", s].value("test/loss") for s in SEEDS]


def test_psm_wikitext2_shows_relative_perplexities_of_each_corpus(tmp_path):
    def extra(arm, noise, corpus):
        return ({"neural_cache/gain": 0.05} if arm == "lstm" else {}), {"psm": -0.2, "lstm": 0, "lstm_large": -0.05}[arm]

    sweep = write(tmp_path, "psm-wikitext2", {"lstm": {}, "psm": {}, "lstm_large": {}}, extra, ("wikitext-2", "novels"))
    figure, caption, cells = psm_wikitext2.draw(sweep)
    found = marks(figure.axes[1])
    assert len(cells) == 18 and len(found) == 6
    for corpus in ("wikitext-2", "novels"):
        change = [100 * math.expm1(d) for d in paired(sweep, "psm", **{"task.corpus": corpus})]
        assert any(x == pytest.approx(mean_interval(change).mean) for x in found)
        assert f"Test perplexity on {corpus}" in caption
    assert sum(x == pytest.approx(100 * math.expm1(-0.05)) for x in found) == 2  # the caches
    assert "n = 3 seeds" in caption


def test_psm_frequency_shows_gains_by_part_and_reach(tmp_path):
    def extra(arm, noise, corpus):
        return frequency(noise, 0.5 if arm == "psm" else 0) | (pointer(noise, 0.8) if arm == "psm" else {}), 0

    sweep = write(tmp_path, "psm-frequency", {"lstm": {}, "psm": {}}, extra)
    figure, caption, _ = psm_frequency.draw(sweep)
    assert len(figure.axes) == 3
    line = next(x for x in figure.axes[0].lines if len(x.get_xdata()) == 10)
    by = {(c.arm, c.seed): c.array("word_frequency/loss_by_bucket").values for c in sweep}
    expected = np.mean([by["lstm", s] - by["psm", s] for s in SEEDS], axis=0)
    assert list(line.get_ydata()) == pytest.approx(list(expected))
    assert marks(figure.axes[1]) == pytest.approx(sorted([2.5, 0, 0, 0.5, 0, -0.05]))
    assert "Rank correlation of the mean gain with rarity: 1.00" in caption
    assert "last read near +2.50" in caption


def test_psm_window_shows_gain_and_time_against_the_window(tmp_path):
    windows = {"psm_10": 10, "psm": 100, "psm_200": 200}
    arms = {"lstm": {}, **{arm: {"head.window": w} for arm, w in windows.items()}}

    def extra(arm, noise, corpus):
        if arm == "lstm":
            return {}, 0
        w = windows[arm]
        time = ([0.01 * x * (1 + 0.1 * noise.random()) for x in (100, 200)], {"window": [100, 200]})
        return {"overhead/time_ratio": 1 + w / 1000, "pointer_time/exponent": 1.02, "pointer_time/microseconds": time}, -w / 1000

    sweep = write(tmp_path, "psm-window", arms, extra)
    figure, caption, _ = psm_window.draw(sweep)
    line = next(x for x in figure.axes[0].lines if len(x.get_xdata()) == 3 and x.get_label().startswith("Pointer"))
    assert list(line.get_xdata()) == [10, 100, 200]
    assert list(line.get_ydata()) == pytest.approx([-mean_interval(paired(sweep, arm)).mean for arm in windows])
    alone = next(x for x in figure.axes[2].lines if x.get_label() == "pointer alone")
    least = min(c.array("pointer_time/microseconds").values[0] for c in sweep if c.arm != "lstm")
    assert alone.get_ydata()[0] == pytest.approx(least)
    assert "power of 1.02" in caption


def test_psm_ablation_shows_every_arm_and_its_gate(tmp_path):
    changes = {arm: 0.02 * i - 0.2 for i, arm in enumerate(psm_ablation.ARMS)}
    arms = {"lstm": {}, **{arm: {} for arm in changes}}

    def extra(arm, noise, corpus):
        measured = frequency(noise, 0.0 if arm == "lstm" else 0.2)
        return measured | (pointer(noise, 0.7) if arm != "lstm" else {}), changes.get(arm, 0)

    sweep = write(tmp_path, "psm-ablation", arms, extra)
    figure, caption, _ = psm_ablation.draw(sweep)
    shown = [arm for arm in changes if arm != "pointer_only"]
    assert marks(figure.axes[0]) == pytest.approx(sorted(mean_interval(paired(sweep, arm)).mean for arm in shown))
    curve = figure.axes[1].lines[0]
    assert list(curve.get_xdata()) == [1, 2, 11, 101] and curve.get_ydata()[-1] == pytest.approx(0.7)
    assert len(figure.axes) == 4
    assert "pointer alone" in caption and "Mean g at the end" in caption


def test_psm_copy_rate_shows_gain_against_the_rate(tmp_path):
    noise, builder = random.Random(6), synthetic.Builder(tmp_path, "psm-copy-rate", "quick")
    for seed in SEEDS:
        for rate in (0.0, 0.4, 0.8):
            for arm in ("lstm", "psm"):
                loss = 5 - (rate if arm == "psm" else 0) + 0.01 * noise.random()
                copied = math.nan if rate == 0 else loss - 1
                measured = {"test/loss": loss, "test/loss_by_slice": ([copied, loss, loss], {"slice": ["copied", "new", "rare"]})}
                builder.add(arm, {"task.copy_rate": rate}, seed, BASE, measured | (pointer(noise, 0.9) if arm == "psm" else {}))
    builder.write(title="Copy rate", command="copylab run psm-copy-rate")
    sweep = load_sweep(tmp_path, "psm-copy-rate")
    figure, caption, _ = psm_copy_rate.draw(sweep)
    line = next(x for x in figure.axes[0].lines if len(x.get_xdata()) == 3)
    assert list(line.get_xdata()) == [0, 40, 80]
    assert list(line.get_ydata()) == pytest.approx([0, 0.4, 0.8], abs=0.01)
    copied = next(x for x in figure.axes[1].lines if x.get_label() == "copied")
    assert list(copied.get_xdata()) == [40, 80]  # nothing is copied at a rate of 0
    assert "it grows with the rate" in caption


def test_psm_generation_is_drawn_as_greedy_loops_are(tmp_path):
    builder = synthetic.Builder(tmp_path, "psm-generation", "quick")
    ngrams, floors = [1.0, 2.0, 3.0, 4.0], [0.0, 0.3]
    for seed in SEEDS:
        for arm, loops in (("lstm", [0.5, 0.5]), ("psm", [0.7, 0.4])):
            repeated = ([[0.8, 0.6, 0.5, 0.4], [0.7, 0.5, 0.4, 0.3]], {"lm_floor": floors, "ngram": ngrams})
            builder.add(arm, {}, seed, BASE, {
                "generation/repeated": repeated, "generation/loops": (loops, {"lm_floor": floors}),
                "generation/repeated_text": ([0.3, 0.1, 0.0, 0.0], {"ngram": ngrams}), "generation/loop_rate": loops[0],
            })  # fmt: skip
    builder.write(title="Generation", command="copylab run psm-generation")
    figure, caption, _ = REGISTRY["psm-generation"].draw(load_sweep(tmp_path, "psm-generation"))
    assert len(figure.axes) == 2
    assert "LSTM: 50 % loops" in caption and "Pointer Sentinel: 70 % loops" in caption
