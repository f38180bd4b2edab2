"""Figures of output heads and of blocked gradients, from made-up numbers."""

import random
from pathlib import Path

import h5py
import pytest
import synthetic

from copylab_plots import load_sweep, style
from copylab_plots.__main__ import main
from copylab_plots.figures import heads, stop_gradient
from copylab_plots.results import ResultsError
from copylab_plots.stats import mean_interval

# Loss of copyable and of new targets, below those of the plain head.
GAINS = {
    "vanilla": (0, 0), "mixture_of_softmaxes": (0.02, 0.01), "pointer_generator": (0.3, -0.02), "psm": (0.28, -0.05),
    "psm_no_aux": (0.25, -0.01), "copy_paste": (0.4, 0.01), "copy_paste_blocked": (0.3, 0.0), "sigmoid_gate": (0.38, 0.0),
    "gate_floor": (0.36, -0.06), "no_sink": (0.35, 0.0), "dropped_sink": (0.33, -0.01), "next_token": (0.2, 0.01),
    "no_copy_self": (0.39, 0.01), "lm_aux_tenth": (0.39, 0.02), "lm_aux_one": (0.3, 0.03), "pointer_aux": (0.4, 0.0),
    "detach_q": (0.35, 0.0), "detach_k": (0.33, 0.0), "detach_both": (0.25, -0.01), "detach_gate": (0.39, 0.0),
    "detach_lm": (0.1, -0.3),
}  # fmt: skip


def name_slices(results: Path, experiment: str, measure: str, names: tuple) -> None:
    for path in (results / experiment).glob("*/metrics.h5"):
        with h5py.File(path, "a") as file:
            del file[f"eval/{measure}/slice"]
            file[f"eval/{measure}"].create_dataset("slice", data=list(names), dtype=h5py.string_dtype())


def text(results: Path, experiment: str, arms, seeds=(1, 2, 3), absent=()) -> None:
    noise, builder = random.Random(4), synthetic.Builder(results, experiment, "quick")
    for seed in seeds:
        common = 0.05 * noise.gauss(0, 1)
        for arm in arms:
            copyable, new = (base - gain + common + 0.01 * noise.gauss(0, 1) for base, gain in zip((3.5, 7.0), GAINS[arm]))
            evaluated = {
                "test/loss": 0.45 * copyable + 0.55 * new, "test/loss_by_slice": ([copyable, new], {"slice": [0, 1]}),
                "neural_cache/gain": 0.03, "neural_cache/gain_by_slice": ([0.08, -0.01], {"slice": [0, 1]}),
                "exact_match/gain": 0.02, "exact_match/gain_by_slice": ([0.06, -0.01], {"slice": [0, 1]}),
                "overhead/parameter_ratio": 1 + 0.01 * len(arm), "overhead/time_ratio": 1.1 + 0.05 * noise.random(),
            }  # fmt: skip
            if arm not in ("vanilla", "mixture_of_softmaxes"):
                evaluated.update({"test/gate": 0.3, "test/sink": 0.5})
            builder.add(arm, {}, seed, synthetic.BASE, evaluated, status="missing" if (arm, seed) in absent else "done")
    builder.write(title="Output heads", command=f"copylab run {experiment} --preset quick")
    for measure in ("test", "neural_cache", "exact_match"):
        name_slices(results, experiment, measure, ("copyable", "new"))


BLOCKED = [arm for arm in GAINS if arm.startswith("detach")]
HEADS = [arm for arm in GAINS if arm not in BLOCKED]


@pytest.fixture(autouse=True)
def house_style():
    with style.house_style():
        yield
    style.plt.close("all")


def marks(axes) -> list[tuple[float, float]]:
    """Means of the rows of a dot plot: (value, row)."""
    return [line.get_xydata()[0] for line in axes.lines if len(line.get_xdata()) == 1]


def test_heads_shows_paired_differences_in_every_panel(tmp_path):
    text(tmp_path, "heads", HEADS)
    sweep = load_sweep(tmp_path, "heads")
    figure, caption, cells = heads.draw(sweep)
    assert len(cells) == 3 * len(HEADS)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(rows) == len(HEADS) - 1 + 4  # every arm but the plain one, and two baselines on two arms
    by_seed = {(c.arm, c.seed): c for c in cells}
    for axes, part in zip(figure.axes, ("", "copyable", "new")):
        found = [value for value, _ in marks(axes)]
        for label, arm in (("pointer sentinel", "psm"), ("Copy-Paste", "copy_paste")):
            pairs = [heads.loss(by_seed[arm, s], part) - heads.loss(by_seed["vanilla", s], part) for s in (1, 2, 3)]
            assert found[rows.index(label)] == pytest.approx(mean_interval(pairs).mean, abs=1e-12)
        cache = -{"": 0.03, "copyable": 0.08, "new": -0.01}[part]
        assert found[rows.index("neural cache on plain")] == pytest.approx(cache, abs=1e-12)
    assert "n = 3 seeds" in caption and "95 %" in caption


def test_heads_names_missing_cells_or_leaves_them_out(tmp_path):
    text(tmp_path, "heads", ("vanilla", "copy_paste", "psm"), absent=[("psm", 2)])
    sweep = load_sweep(tmp_path, "heads")
    with pytest.raises(ResultsError, match="psm, seed 2"):
        heads.draw(sweep)
    _, caption, _ = heads.draw(sweep, allow_missing=True)
    assert "1 of 9 cells" in caption and "n = 2–3" in caption


def test_stop_gradient_shows_shares_of_the_gain(tmp_path, capsys):
    arms = ["vanilla", "copy_paste", *BLOCKED]
    text(tmp_path, "stop-gradient", arms)
    sweep = load_sweep(tmp_path, "stop-gradient")
    figure, caption, cells = stop_gradient.draw(sweep)
    loss = {arm: [heads.loss(c) for c in sweep.select(arm=arm)] for arm in arms}
    whole = mean_interval([a - b for a, b in zip(loss["vanilla"], loss["copy_paste"])]).mean
    kept = mean_interval([a - b for a, b in zip(loss["vanilla"], loss["detach_both"])]).mean
    found = [value for value, _ in marks(figure.axes[0])]
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert found[rows.index("queries and keys cut")] == pytest.approx(kept, abs=1e-12)
    assert f"{100 * kept / whole:.0f}%" in [t.get_text() for t in figure.axes[2].texts]
    assert "n = 3 seeds" in caption
    assert main(["figures", "stop-gradient", "--from", str(tmp_path), "--to", str(tmp_path)]) == 0
    capsys.readouterr()


def test_blocked_spamlang_shows_accuracy_by_slice(tmp_path):
    builder = synthetic.Builder(tmp_path, "stop-gradient-spamlang", "quick")
    for seed in (1, 2, 3):
        for i, arm in enumerate(("vanilla", "copy_paste", "detach_both")):
            once, more = 0.1 + 0.2 * i + 0.01 * seed, 0.2 + 0.2 * i
            builder.add(arm, {}, seed, synthetic.BASE, {
                "test/accuracy_by_slice": ([0.0, once, more], {"slice": [0, 1, 2]}), "test/ceiling": 0.9,
                "valid/tokens": [1e5, 2e5], "valid/accuracy": [0.1, 0.2 + 0.2 * i],
            })  # fmt: skip
    builder.write(title="Blocked gradients")
    name_slices(tmp_path, "stop-gradient-spamlang", "test", ("never_shown", "shown_once", "shown_more"))
    figure, caption, _ = stop_gradient.draw_spamlang(load_sweep(tmp_path, "stop-gradient-spamlang"))
    found = {round(float(row), 2): float(value) for value, row in marks(figure.axes[1])}
    assert found[0.83] == pytest.approx(32.0) and found[1.17] == pytest.approx(40.0)
    curve = next(line for line in figure.axes[0].lines if len(line.get_xdata()) == 2 and line.get_color() == style.BLUE)
    assert list(curve.get_ydata()) == pytest.approx([0.1, 0.4])
    assert "n = 3 seeds" in caption
