"""Reading sweeps and runs."""

import h5py
import numpy as np
import pytest
import synthetic

from copylab_plots import ResultsError, load_sweep


@pytest.fixture
def results(tmp_path):
    synthetic.spamlang_quick(tmp_path, vocabs=(256, 1024), seeds=(1, 2), absent={("vanilla", False, 1024, 2)})
    return tmp_path


def test_cells_are_selected_by_role_arm_and_coordinates(results):
    sweep = load_sweep(results, "spamlang", "quick")
    assert len(sweep.cells) == 2 * 2 * 2 * 2 * 2
    cells = sweep.select(role="best", arm="copy_paste", **{"task.vocab": 256, "model.tied": True})
    assert [c.seed for c in cells] == [1, 2]
    assert all(c["train.lr"] == 3e-3 and c["task.length"] == 64 for c in cells)


def test_numbers_are_those_of_the_file(results):
    cell = load_sweep(results, "spamlang", "quick").select(arm="vanilla")[0]
    with h5py.File(results / "spamlang" / cell.run / "metrics.h5") as file:
        assert cell.value("test/accuracy") == file["eval/test/accuracy"][()]
    assert cell.trained("tokens") == synthetic.TOKENS


def test_an_unfinished_cell_has_the_settings_of_its_arm(results):
    sweep = load_sweep(results, "spamlang", "quick")
    absent = sweep.select(status="missing")
    assert len(absent) == 2
    assert sweep.setting(absent[0], "task.vocab") == 1024
    assert sweep.setting(absent[0], "task.length") == 64


def test_unfinished_cells_are_named(results):
    sweep = load_sweep(results, "spamlang", "quick")
    with pytest.raises(ResultsError) as error:
        sweep.require(sweep.select("best"))
    assert "missing: vanilla, model.tied = 0, task.vocab = 1024, train.lr = 0.003, seed 2" in str(error.value)
    assert str(error.value).count("\n") == 1


def test_arrays_carry_their_axes(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    synthetic.write_run(tmp_path / "m" / "r-0", {}, {"probe/x": (values, {"step": [0, 10], "layer": [1, 2, 3]})})
    synthetic.write_sweep(
        tmp_path / "m" / "sweep-quick.h5",
        {"run": ["r-0"], "arm": ["a"], "seed": [1], "status": ["done"], "tune": [0], "best": [1], "same": [1]},
    )
    array = load_sweep(tmp_path, "m").cells[0].array("probe/x")
    assert array.dims == ("step", "layer")
    assert list(array.at(step=10).values) == [3, 4, 5]
    assert array.at(step=10, layer=2).values == 4
    with pytest.raises(ResultsError, match="no step = 5"):
        array.at(step=5)


def test_the_stages_before_a_run_are_found_in_any_experiment(tmp_path):
    synthetic.write_run(tmp_path / "text" / "a-s1-00000001", {"run.parent": ""}, {}, tokens=100)
    synthetic.write_run(tmp_path / "m" / "a-s1-easy-00000002", {"run.parent": "00000001"}, {}, tokens=20)
    synthetic.write_run(tmp_path / "m" / "a-s1-hard-00000003", {"run.parent": "00000002", "task.name": "parity"}, {}, tokens=3)
    synthetic.write_sweep(
        tmp_path / "m" / "sweep-quick.h5",
        {"run": ["a-s1-hard-00000003"], "arm": ["a"], "seed": [1], "status": ["done"], "tune": [0], "best": [1], "same": [1]},
    )
    cell = load_sweep(tmp_path, "m").cells[0]
    assert cell["task.name"] == "parity"  # the last stage is the result
    assert [stage.run for stage in cell.before] == ["a-s1-00000001", "a-s1-easy-00000002"]
    assert [stage.trained("tokens") for stage in cell.before] == [100, 20]
    assert cell.before[0].before == []


def test_a_run_kept_in_another_experiments_folder_is_found(results):
    run = load_sweep(results, "spamlang", "quick").cells[0].run
    (results / "elsewhere").mkdir()
    (results / "spamlang" / run).rename(results / "elsewhere" / run)
    assert load_sweep(results, "spamlang", "quick").cells[0].value("test/accuracy") > 0


def test_without_a_preset_the_most_complete_is_read(results):
    assert load_sweep(results, "spamlang").preset == "quick"
    synthetic.spamlang_full(results, seeds=(1,))
    assert load_sweep(results, "spamlang").preset == "full"


def test_absent_and_foreign_files_are_one_line(results, tmp_path):
    with pytest.raises(ResultsError, match="is not there; make it with:  ./copylab run nothing --preset quick"):
        load_sweep(results, "nothing")
    (results / "spamlang" / "sweep-smoke.h5").write_text("no HDF5")
    with pytest.raises(ResultsError, match="not a sweep file of copylab"):
        load_sweep(results, "spamlang", "smoke")
    cell = load_sweep(results, "spamlang", "quick").cells[0]
    with pytest.raises(ResultsError, match="metrics.h5: no test/nothing"):
        cell.value("test/nothing")
    (cell.folder / "metrics.h5").write_bytes(b"\x89HDF\r\n\x1a\n torn")
    with pytest.raises(ResultsError, match="cannot be read"):
        cell.value("test/accuracy")
