"""Figures: what they show, refuse and remember."""

import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import synthetic

from copylab_plots import load_sweep, style
from copylab_plots.compare import pairs, savings
from copylab_plots.__main__ import main
from copylab_plots.figures import bounded_rank, byte_level, gradient_rank, greedy_loops, induction, sizes, spamlang, token_efficiency, update_depth, windows
from copylab_plots.stats import mean_interval

FORMATS = ("pdf", "png", "svg")


@pytest.fixture(autouse=True)
def house_style():
    with style.house_style():
        yield
    style.plt.close("all")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    results = tmp_path_factory.mktemp("quick")
    synthetic.spamlang_quick(results)
    return results


def draw(results: Path, to: Path, *options: str, **environment) -> subprocess.CompletedProcess:
    """Runs the command as a user does, in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MPLBACKEND")}
    env.update(environment, PYTHONPATH=str(Path(__file__).parents[1]))
    command = [sys.executable, "-m", "copylab_plots", "figures", "spamlang", "--from", str(results), "--to", str(to)]
    return subprocess.run([*command, *options], env=env, capture_output=True, text=True)


def test_same_results_give_same_bytes_with_any_display(quick, tmp_path):
    first = draw(quick, tmp_path / "1", PYTHONHASHSEED="1")
    second = draw(quick, tmp_path / "2", PYTHONHASHSEED="2", DISPLAY="localhost:64", MPLBACKEND="TkAgg", TZ="Asia/Tokyo")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    for name in [f"spamlang.{suffix}" for suffix in (*FORMATS, "caption.txt")]:
        digests = {hashlib.sha256((tmp_path / n / name).read_bytes()).hexdigest() for n in "12"}
        assert len(digests) == 1, name


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_figure_knows_its_runs(quick, tmp_path, capsys, suffix):
    assert main(["figures", "spamlang", "--from", str(quick), "--to", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["whence", str(tmp_path / f"spamlang.{suffix}")]) == 0
    cells = load_sweep(quick, "spamlang").cells
    assert capsys.readouterr().out.split() == sorted(f"spamlang/{c.run}" for c in cells)


def test_whence_refuses_other_files(tmp_path, capsys):
    (tmp_path / "other.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert main(["whence", str(tmp_path / "other.png")]) == 1
    assert "holds no run ids" in capsys.readouterr().err


def test_plotted_values_are_those_of_the_files(quick):
    sweep = load_sweep(quick, "spamlang")
    figure, _, _ = spamlang.draw(sweep)
    for axes, role in zip(figure.axes, ("best", "same")):
        for arm, tied, label in (("vanilla", True, "Vanilla LM, tied"), ("copy_paste", False, "Copy-Paste LM, untied")):
            line = next(line for line in axes.lines if line.get_label() == label)
            assert list(line.get_xdata()) == [256, 1024, 4096, 16384]
            for vocab, plotted in zip(*line.get_data()):
                cells = sweep.select(role, arm=arm, **{"model.tied": tied, "task.vocab": vocab})
                assert plotted == mean_interval([c.value("test/accuracy") for c in cells]).mean
        seeds = {y for line in axes.lines if line.get_marker() == "." for y in line.get_ydata()}
        assert seeds == {c.value("test/accuracy") for c in sweep.select(role)}


def test_caption_states_seeds_budget_and_arms(quick):
    _, caption, _ = spamlang.draw(load_sweep(quick, "spamlang"))
    for part in ("n = 3 seeds", "1.31 M tokens per run", "D = 64", "(1.2 to 80)", "95 % t interval", "Vanilla LM, tied",
                 "Copy-Paste LM, untied", "preset quick"):  # fmt: skip
        assert part in caption


def test_one_seed_is_said_and_has_no_band(tmp_path):
    synthetic.spamlang_quick(tmp_path, seeds=(1,))
    figure, caption, _ = spamlang.draw(load_sweep(tmp_path, "spamlang"))
    assert "n = 1 seed: no interval" in caption
    assert not figure.axes[0].collections


def test_a_missing_cell_is_an_error_that_names_it(tmp_path, capsys):
    synthetic.spamlang_quick(tmp_path, absent={("copy_paste", True, 4096, 2)})
    assert main(["figures", "spamlang", "--from", str(tmp_path)]) == 1
    assert "missing: copy_paste, model.tied = 1, task.vocab = 4096, train.lr = 0.003, seed 2" in capsys.readouterr().err
    assert not list(tmp_path.glob("**/*.png"))


def test_missing_cells_are_hatched_on_request(tmp_path, capsys):
    synthetic.spamlang_quick(tmp_path, absent={("copy_paste", True, 4096, 2)})
    figure, caption, cells = spamlang.draw(load_sweep(tmp_path, "spamlang"), allow_missing=True)
    assert [len([p for p in axes.patches if p.get_hatch()]) for axes in figure.axes] == [1, 1]
    assert "Hatched: 2 cells without a result." in caption
    assert main(["figures", "spamlang", "--from", str(tmp_path), "--allow-missing"]) == 0


def test_a_whole_missing_sweep_says_what_to_run(tmp_path, capsys):
    assert main(["figures", "spamlang", "--from", str(tmp_path)]) == 1
    assert "./copylab run spamlang" in capsys.readouterr().err
    assert main(["figures", "--from", str(tmp_path)]) == 1
    assert main(["figures", "spamlan", "--from", str(tmp_path)]) == 1
    assert "no figure is called spamlan" in capsys.readouterr().err


def test_full_preset_brings_its_panels(tmp_path):
    synthetic.spamlang_full(tmp_path)
    figure, caption, _ = spamlang.draw(load_sweep(tmp_path, "spamlang", "full"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert [t[5:] for t in titles] == [
        "Best learning rate per arm", "Same learning rate for all arms", "Length of the sequences",
        "Fixed draws of each symbol", "Draws of a symbol", "Rank of the head, $V$ = 16,384",
        "Gradient of the copy head blocked",
    ]  # fmt: skip
    assert "(f) the output matrix factorised" in caption
    backward = next(line for line in figure.axes[5].lines if line.get_label() == "Backward-only rank")
    assert list(backward.get_xdata()) == [4, 8, 16, 32]


def test_cells_that_are_all_special_have_their_panel_alone(tmp_path):
    builder = synthetic.Builder(tmp_path, "spamlang", "smoke")
    swept = {"task.vocab": 64, "task.interleave": 4}
    evaluated = {"test/accuracy": 0.5, "test/ceiling": 0.9, "test/chance": 0.1, "test/budget_sequences_per_symbol": 4.0}
    builder.add("copy_paste", swept, 1, synthetic.BASE, evaluated)
    builder.write()
    figure, _, _ = spamlang.draw(load_sweep(tmp_path, "spamlang", "smoke"))
    assert [axes.get_title(loc="left")[5:] for axes in figure.axes] == ["Gradient of the copy head blocked"]


def test_gradient_rank_shows_the_stored_numbers_beside_their_nulls(tmp_path):
    synthetic.gradient_rank(tmp_path)
    sweep = load_sweep(tmp_path, "gradient-rank")
    figure, caption, _ = gradient_rank.draw(sweep)
    assert len(figure.axes) == 8
    for axes, name in zip(figure.axes, "rc"):
        lines = {line.get_label(): line for line in axes.lines}
        for share, plotted in zip(*lines["trained"].get_data()):
            cells = sweep.select(**{"task.vocab": 64 / share, "head.rank": 0})
            assert plotted == mean_interval([c.value(f"head_gradient/{name}") for c in cells]).mean
        null = dict(zip(*lines["isotropic null"].get_data()))
        assert null[1 / 16] == pytest.approx({"r": (1 - 1 / 16) ** 0.5, "c": 0.25}[name])
    assert "r² + c² = 1" in caption and "n = 3 seeds" in caption


def test_gradient_rank_draws_only_what_was_measured(tmp_path):
    builder = synthetic.Builder(tmp_path, "gradient-rank", "smoke")
    found = {"update_rank/bound": 128, "update_rank/rank_first_order": 128, "update_rank/rank_finite": 127,
             "update_rank/rank_gradient": 500}  # fmt: skip
    builder.add("vanilla", {"task.vocab": 1024}, 1, synthetic.BASE, found)
    builder.write()
    figure, caption, _ = gradient_rank.draw(load_sweep(tmp_path, "gradient-rank"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["(a)  Rank of one update"]
    assert "n = 1 seed." in caption


def test_gradient_rank_names_and_hatches_missing_cells(tmp_path, capsys):
    synthetic.gradient_rank(tmp_path, absent={(1024, 2)})
    assert main(["figures", "gradient-rank", "--from", str(tmp_path)]) == 1
    assert "missing: vanilla, head.rank = 0, task.vocab = 1024, seed 2" in capsys.readouterr().err
    figure, _, _ = gradient_rank.draw(load_sweep(tmp_path, "gradient-rank"), allow_missing=True)
    assert sum(bool(p.get_hatch()) for p in figure.axes[0].patches) == 1


def panel(figure, title):
    return next(axes for axes in figure.axes if axes.get_title(loc="left")[5:] == title)


def line(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


def means(axes, marker):
    """x of the marks of a dot plot, from the top row to the lowest."""
    found = [(line.get_ydata()[0], line.get_xdata()[0]) for line in axes.lines if line.get_marker() == marker]
    return [x for _, x in sorted(found, reverse=True)]


def test_token_efficiency_marks_the_savings_of_the_curves(tmp_path):
    synthetic.token_efficiency(tmp_path)
    sweep = load_sweep(tmp_path, "token-efficiency")
    figure, caption, _ = token_efficiency.draw(sweep)
    assert [axes.get_title(loc="left")[5:] for axes in figure.axes] == [
        "Full attention", "Hybrid", "Sliding window", "Token saving by backbone", "Token saving by width",
        "Gain by target and text",
    ]  # fmt: skip

    def expected(backbone, dim):
        where = {"model.backbone": backbone, "model.dim": dim}
        return mean_interval(savings(pairs(sweep.select(**where), "copy_paste", "vanilla")))

    backbones = means(figure.axes[3], "o")
    assert backbones == [expected(b, 64).mean for b in ("full", "hybrid", "sliding")]
    assert backbones == pytest.approx([1.2, 1.3, 1.5], abs=0.1)  # what the runs were made with
    assert means(figure.axes[3], "D") == pytest.approx([s / 1.12 for s in backbones])
    over_width = dict(zip(*line(figure.axes[4], "Copy-Paste LM").get_data()))
    assert over_width == {dim / 4096: expected("full", dim).mean for dim in (32, 64, 128)}
    interval = expected("full", 64)
    assert f"Full attention S = {interval.mean:.2f} ± {interval.high - interval.mean:.2f}" in caption
    assert "n = 3)" in caption and "(p = " in caption and "+12.0, +5.0, +2.0 %" in caption
    assert "Perplexity on other text: Full attention −2.0 ± 0.0 %" in caption  # exp(-0.02)
    assert means(figure.axes[5], "D") == pytest.approx([-0.02] * 5)


def test_token_efficiency_draws_what_there_is(tmp_path):
    synthetic.token_efficiency(tmp_path, seeds=(1,), absent={("vanilla", "hybrid", 64, 1), ("copy_paste", "full", 32, 1)})
    figure, caption, _ = token_efficiency.draw(load_sweep(tmp_path, "token-efficiency"), allow_missing=True)
    assert "Hybrid" not in [axes.get_title(loc="left")[5:] for axes in figure.axes]
    assert "n = 1 seed." in caption and "(no p value, n = 1)" in caption and "2 cells without a result." in caption


def test_sizes_pairs_arms_at_their_own_rates(tmp_path):
    synthetic.sizes(tmp_path)
    sweep = load_sweep(tmp_path, "sizes")
    figure, caption, cells = sizes.draw(sweep)
    assert len(cells) == 3 * 2 * 3  # tuning runs are not reported
    saved = dict(zip(*line(panel(figure, "Token saving by width"), "Copy-Paste LM").get_data()))
    for dim, made_with in ((32, 1.6), (64, 1.4), (128, 1.2)):
        found = pairs(sweep.select(role="best", **{"model.dim": dim}), "copy_paste", "vanilla", "train.lr")
        assert len(found) == 3
        assert saved[dim / 4096] == mean_interval(savings(found)).mean == pytest.approx(made_with, abs=0.1)
    gain = panel(figure, "What the copy head adds")
    apart = line(gain, "copyable").get_ydata() - line(gain, "all targets").get_ydata()
    assert apart == pytest.approx([-0.2] * 3) and line(gain, "new").get_ydata() == pytest.approx(line(gain, "all targets").get_ydata() + 0.1)
    rates = panel(figure, "Learning rates")
    assert [list(l.get_ydata()) for l in rates.lines[1:]] == [[3.2e-2, 1.6e-2, 8e-3], [1.6e-2, 8e-3, 4e-3]]
    assert len(rates.lines[0].get_ydata()) == 12
    assert "S at D = 128 less S at D = 32: −0.4" in caption and "(n = 3)" in caption


def test_sizes_draws_a_single_width_and_says_what_is_missing(tmp_path):
    synthetic.sizes(tmp_path, seeds=(1, 2), widths=(64,), absent={("vanilla", 64, 2)})
    figure, caption, _ = sizes.draw(load_sweep(tmp_path, "sizes"), allow_missing=True)
    assert panel(figure, "Token saving by width")
    assert "S at D" not in caption and "1 cells without a result." in caption


def test_windows_compares_at_equal_memory(tmp_path):
    synthetic.windows(tmp_path)
    sweep = load_sweep(tmp_path, "windows")
    figure, caption, _ = windows.draw(sweep)
    gain = panel(figure, "What the copy head adds")
    assert line(gain, "at equal window").get_ydata() == pytest.approx([-0.1] * 4, abs=0.01)
    # The plain loss falls by 0.1 nats per doubling of its memory; copy keys raise that from 2Lw to 2Lw + T.
    expected = {w: 0.1 * math.log2(1 + 256 / (8 * w)) - 0.1 for w in (8, 16, 64)} | {256: -0.1}
    for w, plotted in zip(*line(gain, "at equal memory").get_data()):
        assert plotted == pytest.approx(expected[w], abs=0.01)
    assert "for 2 of 4 windows (w = 64, 256)" in caption
    assert "5.33 times less memory at T = 256 (2LT/(2Lw + T) = 5.33)" in caption


def test_windows_says_what_is_missing(tmp_path):
    synthetic.windows(tmp_path, absent={("copy_paste", 16, 2)})
    figure, caption, _ = windows.draw(load_sweep(tmp_path, "windows"), allow_missing=True)
    assert sum(bool(p.get_hatch()) for axes in figure.axes for p in axes.patches) == 1
    assert "1 cells without a result." in caption


def test_byte_level_sets_the_gain_against_ratio_and_lost_gradient(tmp_path):
    synthetic.byte_level(tmp_path)
    sweep = load_sweep(tmp_path, "byte-level")
    figure, caption, _ = byte_level.draw(sweep)
    over_ratio = dict(zip(*line(panel(figure, "Gain against vocabulary"), "$D$ = 64").get_data()))
    over_lost = dict(zip(*line(panel(figure, "Gain against lost gradient"), "$D$ = 64").get_data()))
    assert list(over_ratio) == [4, 8, 16, 64]
    assert list(over_ratio.values()) == list(over_lost.values())
    for lost, plotted in over_lost.items():
        assert plotted == pytest.approx(-0.1 * lost, abs=0.01)
    found = {c.seed: c.value("test/bits_per_byte") for c in sweep.select(arm="copy_paste", **{"task.vocab": 512})}
    plain = {c.seed: c.value("test/bits_per_byte") for c in sweep.select(arm="vanilla", **{"task.vocab": 512})}
    assert over_ratio[8] == mean_interval([found[s] - plain[s] for s in (1, 2, 3)]).mean
    assert "bytes, D = 256 (r = 0.000)" in caption and "of what BPE 4,096, D = 256 gains" in caption


def test_bounded_rank_compares_both_bounds(tmp_path):
    synthetic.bounded_rank(tmp_path)
    figure, caption, _ = bounded_rank.draw(load_sweep(tmp_path, "bounded-rank"))
    share = line(panel(figure, "What the backward bound explains"), "Backward-only rank")
    assert list(share.get_xdata()) == [4, 8, 16, 32]
    assert share.get_ydata() == pytest.approx([0.5] * 4, abs=0.05)
    forward = line(panel(figure, "Token saving over the lowest rank"), "Factorised head (forward rank)").get_ydata()
    assert forward[0] == 1 and list(forward) == sorted(forward)
    assert "dense: 1.7" in caption


def test_bounded_rank_without_the_dense_head_leaves_the_share_out(tmp_path):
    synthetic.bounded_rank(tmp_path, absent={("dense", s) for s in (1, 2, 3)})
    figure, _, _ = bounded_rank.draw(load_sweep(tmp_path, "bounded-rank"), allow_missing=True)
    assert "What the backward bound explains" not in [axes.get_title(loc="left")[5:] for axes in figure.axes]


def test_update_depth_has_a_ratio_for_each_depth(tmp_path):
    synthetic.update_depth(tmp_path)
    figure, caption, _ = update_depth.draw(load_sweep(tmp_path, "update-depth"))
    ratios = panel(figure, "Direct over hidden states")
    for layers in (2, 4, 8):
        assert line(ratios, f"{layers}").get_ydata() == pytest.approx([10.5], abs=0.5)
    curves = panel(figure, "Steps of equal norm").get_lines()
    assert [len(c.get_xdata()) for c in curves] == [4] * 6  # direct and hidden, three depths
    assert "Ratio by layers: 2: 10." in caption


def test_greedy_loops_counts_repetition_and_loops(tmp_path):
    synthetic.greedy_loops(tmp_path)
    figure, caption, _ = greedy_loops.draw(load_sweep(tmp_path, "greedy-loops"))
    loops = [list(curve.get_ydata()) for curve in panel(figure, "Loops").get_lines() if len(curve.get_xdata()) == 2]
    assert [0.25, 0.0] in loops and [0.5, 0.0] in loops
    assert "Copy-Paste LM: 50 % loops. Vanilla LM: 25 % loops." in caption


def test_induction_draws_means_medians_and_sorted_heads(tmp_path):
    synthetic.induction(tmp_path)
    sweep = load_sweep(tmp_path, "induction")
    figure, caption, _ = induction.draw(sweep)
    titles = [axes.get_title(loc="left")[5:] for axes in figure.axes]
    assert titles == ["Loss on the second copy", "Induction heads", "Scores, Vanilla LM", "Scores, Copy-Paste LM",
                      "Scores while training", "What is lost without it"]  # fmt: skip
    loss = next(line for line in figure.axes[0].lines if line.get_label() == "Vanilla LM")
    for block, plotted in zip(*loss.get_data()):
        values = [c.array("induction/nll").at(block=block).values for c in sweep.select(arm="vanilla")]
        assert plotted == pytest.approx(mean_interval(values).mean)
    counts = [c.array("induction/heads_above").values for c in sweep.select(arm="vanilla")]
    assert list(figure.axes[1].lines[0].get_ydata()) == list(np.median(counts, axis=0))
    written = [text.get_text() for text in figure.axes[2].texts]
    scores = np.mean([-np.sort(-c.array("induction/score").values, axis=1) for c in sweep.select(arm="vanilla")], axis=0)
    assert written == [f"{x:.2f}" for x in scores.ravel()]
    assert figure.axes[3].texts[-1].get_text() == "copy head 0.97, times gate 0.91"
    assert [text.get_text() for text in figure.axes[5].get_yticklabels()] == ["top 1", "top 2", "top 4", "lowest 4", "pointer"]
    assert len(figure.axes[5].patches) == 2 * 4 + 1
    for part in ("n = 3 seeds", "6 layers of 4 heads", "scores at T = 32"):
        assert part in caption


def test_induction_names_missing_cells_and_draws_the_rest(tmp_path, capsys):
    synthetic.induction(tmp_path, experiment="induction-text", absent={("vanilla", 2)})
    assert main(["figures", "induction-text", "--from", str(tmp_path)]) == 1
    assert "missing: vanilla, seed 2" in capsys.readouterr().err
    _, caption, _ = induction.draw(load_sweep(tmp_path, "induction-text"), allow_missing=True)
    assert "Without a result: 1 cells." in caption
