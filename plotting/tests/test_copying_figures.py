"""Figures of gradient-channels and copy-behaviour: they show the stored numbers, and only what was measured."""

import itertools
import random

import numpy as np
import pytest
import synthetic

from copylab_plots import load_sweep, style
from copylab_plots.figures import copy_behaviour, gradient_channels
from copylab_plots.stats import mean_interval

POSITIONS = [1, 2, 4, 8, 16, 32, 64, 128]
DEFINITIONS = list(gradient_channels.DEFINITIONS)
REPEATS, MODES = list(copy_behaviour.REPEATS), list(copy_behaviour.MODES)
SOURCES, SCORES = list(copy_behaviour.SOURCES), ["gate", "use", "sink"]


@pytest.fixture(autouse=True)
def house_style():
    with style.house_style():
        yield
    style.plt.close("all")


def channels(results, seeds=(1, 2, 3), training=True, tokens=synthetic.TOKENS):
    noise, builder = random.Random(1), synthetic.Builder(results, "gradient-channels", "quick")
    for arm, seed in itertools.product(("vanilla", "copy_paste"), seeds):
        paths = ["lm", "query", "key", "key_pair"] if arm == "copy_paste" else ["lm"]
        dims = {"path": paths, "definition": DEFINITIONS, "position": POSITIONS}
        kept = np.array([[[min(1, (64 / p) ** 0.5) * (0.9 - 0.1 * d) + 0.01 * noise.random() for p in POSITIONS]
                          for d in range(5)] for _ in paths])  # fmt: skip
        kept[:, :, 0] = np.nan  # no position had a gradient there
        evaluated = {
            "copy_gradient/kept": (kept, dims), "copy_gradient/random": (0.9 * kept, dims),
            "head_gradient/r_null": 0.992, "head_gradient/c_null": 0.125,
            "head_gradient/r": 0.99 + 0.001 * seed, "head_gradient/c": 0.12,
        }  # fmt: skip
        if arm == "copy_paste":
            evaluated["copy_gradient/query_exact_mean"] = 0.9
        if training:
            steps = [0, 1, 10, 100]
            evaluated["head_gradient/training/r"] = ([0.99, 0.98, 0.98, 0.97], {"step": steps})
            evaluated["head_gradient/training/c"] = ([0.1, 0.2, 0.2, 0.2], {"step": steps})
            evaluated["copy_gradient/training/kept"] = (np.stack([kept] * 4), {"step": steps, **dims})
        builder.add(arm, {"task.vocab": 4096}, seed, synthetic.BASE, evaluated, tokens=tokens)
    builder.write(title="Channels", command="copylab run gradient-channels --preset quick")


def behaviour(results, seeds=(1, 2, 3), corpora=("wikitext-2", "novels")):
    noise, builder = random.Random(2), synthetic.Builder(results, "copy-behaviour", "quick")
    for corpus, seed in itertools.product(corpora, seeds):
        rates = [i / 4 for i in range(5)]
        loss = np.array([[5 + r - m + noise.random() for m in range(3)] for r in range(4)])
        loss[0, 2] = np.nan  # a pointer alone cannot give a new token
        evaluated = {
            "gate_auc": 0.9 + 0.01 * noise.random(), "use_auc": 0.92, "sink_auc": 0.8,
            "roc": ([[0, 0.6, 0.8, 0.9, 1]] * 3, {"score": SCORES, "false_positive_rate": rates}),
            "fixes": 0.04 + 0.01 * noise.random(), "breaks": 0.01,
            "loss_by_repeat": (loss, {"repeat": REPEATS, "mode": MODES}),
            "use_by_position": ([0.01 * p**0.5 for p in POSITIONS], {"position": POSITIONS}),
            "sink_by_position": ([0.9 - 0.1 * i for i in range(8)], {"position": POSITIONS}),
            "right_mass_by_distance": ([0.05] * 8, {"distance": POSITIONS}),
            "shuffled_right_mass_by_distance": ([0.01] * 8, {"distance": POSITIONS}),
        }  # fmt: skip
        for i, name in enumerate(SOURCES):
            evaluated[name.replace("+", "_") + "_factor"] = 5.0 * (i + 1) + noise.random()
            evaluated[name.replace("+", "_") + "_factor_shuffled"] = 3.0 * (i + 1)
        evaluated = {f"copy_behaviour/{name}": value for name, value in evaluated.items()}
        for name, value in (("logits", 1.0), ("log_softmax", 1.0), ("mixture", 3.5)):
            evaluated[f"mixture_rank/{name}_rank_over_bound"] = value
            evaluated[f"mixture_rank/{name}_rank"] = 64 * value
        builder.add("copy_paste", {"task.corpus": corpus}, seed, synthetic.BASE, evaluated)
    builder.write(title="Copying", command="copylab run copy-behaviour --preset quick")


def test_channels_show_each_definition_with_its_control(tmp_path):
    channels(tmp_path)
    sweep = load_sweep(tmp_path, "gradient-channels")
    figure, caption, cells = gradient_channels.draw(sweep)
    assert len(cells) == 6 and len(figure.axes) == 6
    query = figure.axes[0]
    for name, look in gradient_channels.DEFINITIONS.items():
        line = next(line for line in query.lines if line.get_label() == look.label)
        assert list(line.get_xdata()) == POSITIONS[1:]  # nothing at the position without a gradient
        values = [c.array("copy_gradient/kept").at(path="query", definition=name).values[-1] for c in sweep.select(arm="copy_paste")]
        assert line.get_ydata()[-1] == mean_interval(values).mean
    controls = [line for line in query.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == len(POSITIONS) - 1]
    assert len(controls) == 2
    lost = figure.axes[4]
    assert {line.get_label() for line in lost.lines} >= {"Vanilla LM", "Copy-Paste LM"}
    assert "n = 3 seeds" in caption and "Vocabulary 4,096" in caption


def test_channels_without_training_series_have_fewer_panels(tmp_path):
    channels(tmp_path, seeds=(1,), training=False, tokens=0)
    figure, caption, _ = gradient_channels.draw(load_sweep(tmp_path, "gradient-channels"))
    assert [axes.get_title(loc="left")[5:] for axes in figure.axes] == ["Query path", "Key path", "LM head", "LM head, all positions"]
    assert "n = 1 seed." in caption and "no training" in caption


def test_channels_at_the_start_stand_beside_their_null(tmp_path):
    channels(tmp_path, training=False)
    figure, _, _ = gradient_channels.draw(load_sweep(tmp_path, "gradient-channels"))
    lost = next(axes for axes in figure.axes if "all positions" in axes.get_title(loc="left"))
    assert [text.get_text() for text in lost.texts] == ["0.9920 (null 0.9920)", "0.1200 (null 0.1250)"]
    bars = [list(l.get_xdata()) for l in lost.lines if l.get_linewidth() == 2.2]
    assert bars == [[0.992, 0.992], [0.125, 0.125]]


def test_behaviour_shows_the_stored_numbers(tmp_path):
    behaviour(tmp_path)
    sweep = load_sweep(tmp_path, "copy-behaviour")
    figure, caption, cells = copy_behaviour.draw(sweep)
    panels = {axes.get_title(loc="left")[5:]: axes for axes in figure.axes if axes.get_title(loc="left")}
    assert set(panels) == {panel.title for panel in copy_behaviour.PANELS}
    mixture = next(line for line in panels["Modes by repetition"].lines if line.get_label() == "mixture")
    first = sweep.select(**{"task.corpus": "wikitext-2"})
    values = [c.array("copy_behaviour/loss_by_repeat").at(repeat="triple", mode="natural").values for c in first]
    assert mixture.get_ydata()[-1] == pytest.approx(mean_interval([float(v) for v in values]).mean)
    pointer = next(line for line in panels["Modes by repetition"].lines if line.get_label() == "pointer alone")
    assert len(pointer.get_xdata()) == 3  # not on new targets
    marks = {x for line in panels["Fixes and breaks"].lines for x in line.get_xdata()}
    assert 100 * mean_interval([c.value("copy_behaviour/fixes") for c in first]).mean in marks
    assert "n = 3 seeds" in caption and len(cells) == 6


def test_behaviour_of_one_corpus_and_seed(tmp_path):
    behaviour(tmp_path, seeds=(1,), corpora=("novels",))
    _, caption, _ = copy_behaviour.draw(load_sweep(tmp_path, "copy-behaviour"))
    assert "n = 1 seed." in caption
