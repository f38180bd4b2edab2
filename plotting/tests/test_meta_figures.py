"""Figures of meta-tokens, from made-up numbers."""

import random

import pytest
import synthetic

from copylab_plots import load_sweep, style
from copylab_plots.figures import meta_tokens
from copylab_plots.results import ResultsError
from copylab_plots.stats import mean_interval

BASE = {**synthetic.BASE, "task.name": "text", "run.parent": ""}
ACCURACY = {"plain": 0.2, "pause": 0.4, "meta": 0.9}


@pytest.fixture(autouse=True)
def house_style():
    with style.house_style():
        yield
    style.plt.close("all")


def sweep_of(results, experiment, axes, evaluated, arms=ACCURACY, seeds=(1, 2, 3), absent=()):
    """One cell for each arm, point of `axes` (a list of coordinates) and seed; evaluated(arm, coordinates, noise)."""
    noise, builder = random.Random(3), synthetic.Builder(results, experiment, "quick")
    for seed in seeds:
        for coordinates in axes:
            for arm in arms:
                status = "missing" if (arm, seed) in absent else "done"
                builder.add(arm, coordinates, seed, BASE, evaluated(arm, coordinates, noise.random()), status=status)
    builder.write(title="Meta-tokens")
    return load_sweep(results, experiment)


def titles(figure):
    return [axes.get_title(loc="left")[5:] for axes in figure.axes]


def test_recall_has_a_panel_for_each_task_and_lines_over_the_training_length(tmp_path):
    axes = [{"task.name": task, "task.length": length} for task in ("parity", "list_recall") for length in (32, 64)]
    sweep = sweep_of(tmp_path, "meta-recall", axes, lambda arm, at, x: {"test/accuracy": ACCURACY[arm] * x, "test/chance": 0.1})
    figure, caption, cells = meta_tokens.draw_recall(sweep)
    assert titles(figure) == ["List recall", "Parity"] and len(cells) == 3 * 4 * 3
    line = next(line for line in figure.axes[0].lines if line.get_label() == "Meta-attention")
    assert list(line.get_xdata()) == [32, 64]
    found = sweep.select(arm="meta", **{"task.name": "list_recall", "task.length": 64})
    assert line.get_ydata()[1] == mean_interval([c.value("test/accuracy") for c in found]).mean
    assert "n = 3 seeds" in caption
    assert any(list(line.get_ydata()) == [0.1, 0.1] for line in figure.axes[0].lines)  # a uniform guess


def test_recall_at_one_length_has_rows(tmp_path):
    axes = [{"task.name": "parity", "task.length": 64}]
    sweep = sweep_of(tmp_path, "meta-copy", axes, lambda arm, at, x: {"test/accuracy": ACCURACY[arm]}, absent={("plain", 2)})
    with pytest.raises(ResultsError):
        meta_tokens.draw_recall(sweep)
    figure, caption, _ = meta_tokens.draw_recall(sweep, allow_missing=True)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Plain", "Pause tokens", "Meta-attention"]
    means = [line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert means == [20, 40, 90]
    assert "1 cells without a result." in caption


def test_lengths_take_the_first_level_and_place(tmp_path):
    axes = [{"task.name": "list_recall", "task.length": 32}]

    def evaluated(arm, at, x):
        values = [[[ACCURACY[arm], 0.1]], [[0.5, 0.6]]]
        return {"lengths/answer_accuracy": (values, {"level": ["easy", "hard"], "pause": ["right"], "length": [32, 64]}),
                "test/chance": 0.1}  # fmt: skip

    figure, caption, _ = meta_tokens.draw_lengths(sweep_of(tmp_path, "meta-length", axes, evaluated))
    assert titles(figure) == ["List recall, length 32"]
    line = next(line for line in figure.axes[0].lines if line.get_label() == "Plain")
    assert list(line.get_xdata()) == [32, 64] and list(line.get_ydata()) == pytest.approx([0.2, 0.1])


def test_modes_are_rows_and_arms_marks(tmp_path):
    axes = [{"task.name": "parity"}]

    def evaluated(arm, at, x):
        values = [[[ACCURACY[arm], 0.0]], [[0.1, float("nan")]]]  # the first length counts
        return {"meta_zero/answer_accuracy": (values, {"mode": ["full", "no_position"], "level": ["easy"], "length": [8, 16]})}

    figure, caption, _ = meta_tokens.draw_modes(sweep_of(tmp_path, "meta-zero-position", axes, evaluated, seeds=(1,)))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["as trained", "no position"]
    marks = [(line.get_xdata()[0], round(line.get_ydata()[0])) for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert sorted(marks) == [(10, 0), (10, 0), (10, 0), (20, 1), (40, 1), (90, 1)]
    assert "positional encoding" in caption


def test_injection_names_what_was_changed(tmp_path):
    axes = [{"task.name": "parity", "task.meta_rate": k, "task.meta_placement": where, "task.meta_loss": loss}
            for k, where, loss in ((0.1, "random", 0), (0.2, "random", 0), (0.1, "periodic", 0), (0.1, "random", 1))]  # fmt: skip
    sweep = sweep_of(tmp_path, "meta-injection", axes, lambda arm, at, x: {"test/accuracy": at["task.meta_rate"]}, arms=["base"])
    figure, _, _ = meta_tokens.draw_injection(sweep)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == ["k = 0.1", "k = 0.2", "periodic", "loss on them"]


def test_text_shows_differences_from_the_plain_model_of_the_same_seed(tmp_path):
    sweep = sweep_of(tmp_path, "meta-text", [{}], lambda arm, at, x: {"test/loss": 5 - ACCURACY[arm], "transfer/loss": 6.0})
    figure, _, _ = meta_tokens.draw_text(sweep)
    assert titles(figure) == ["In domain", "Novels"]
    means = [line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert means == pytest.approx([-0.2, -0.7])


def test_attention_has_rows_for_tasks_and_cosines_by_distance(tmp_path):
    axes = [{"task.name": task} for task in ("list_recall", "bracket_copy")]
    name = "meta_attention_entropy"

    def evaluated(arm, at, x):
        cosines = lambda last: ([[0.9, 0.9], [last, 0.1]], {"layer": [0, 1], "distance": [1, 2]})  # noqa: E731
        return {f"{name}/entropy_drop": ACCURACY[arm], f"{name}/logit_boost": -1.0, f"{name}/raised": 0.25,
                f"{name}/cosine": cosines(ACCURACY[arm]), f"{name}/cosine_other": cosines(0.05)}  # fmt: skip

    figure, caption, _ = meta_tokens.draw_entropy(sweep_of(tmp_path, "meta-attention-entropy", axes, evaluated))
    assert titles(figure)[2:] == ["List recall: cosines", "Bracket copy: cosines"]
    means = sorted(line.get_xdata()[0] for line in figure.axes[0].lines if len(line.get_xdata()) == 1)
    assert means == pytest.approx([0.2, 0.2, 0.4, 0.4, 0.9, 0.9])
    line = next(line for line in figure.axes[2].lines if line.get_label() == "Meta-attention")
    assert list(line.get_xdata()) == [1, 2] and list(line.get_ydata()) == pytest.approx([0.9, 0.1])  # of the last block
    assert "25 % of the rows" in caption


def test_rate_and_distortion_have_a_curve_for_each_state(tmp_path):
    states = ["last_token", "meta_token", "meta_token_no_position"]

    def evaluated(arm, at, x):
        table = lambda values: (values, {"state": states, "beta": [1.0, 0.01]})  # noqa: E731
        return {"rate_distortion/rate": table([[0.0, 2.0]] * 3), "rate_distortion/label_entropy": 2.0,
                "rate_distortion/distortion": table([[2.0, 0.5], [2.0, 1.0], [2.0, 1.5]])}  # fmt: skip

    sweep = sweep_of(tmp_path, "meta-rate-distortion", [{"task.name": "parity"}], evaluated, arms=["meta"])
    figure, caption, _ = meta_tokens.draw_rate_distortion(sweep)
    means = [list(line.get_ydata()) for line in figure.axes[0].lines if line.get_marker() in ("s", "o", "^")]
    assert means == [[2.0, 0.5], [2.0, 1.0], [2.0, 1.5]]


def test_cost_is_drawn_for_each_form_and_shape(tmp_path):
    axes = [{"model.preset": preset, "task.length": length} for preset in ("nano", "micro") for length in (128, 256)]

    def evaluated(arm, at, x):
        ratio = at["task.length"] / 128
        return {f"meta_cost/{form}_{what}_ratio_least": ratio if form == "dense" else 1.02
                for form in ("sparse", "dense") for what in ("step", "forward")}  # fmt: skip

    figure, caption, _ = meta_tokens.draw_cost(sweep_of(tmp_path, "meta-cost", axes, evaluated, arms=["base"]))
    assert titles(figure) == ["Training step", "Forward pass"]
    line = next(line for line in figure.axes[0].lines if line.get_label() == "dense, micro")
    assert list(line.get_ydata()) == [1, 2]
