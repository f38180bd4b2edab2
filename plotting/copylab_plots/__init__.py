"""Figures of copylab: reads results/ (HDF5 only), draws PDF, PNG and SVG.

The numbers of an experiment, for scripts and notebooks of your own:

    from copylab_plots import load_sweep

    sweep = load_sweep("results", "spamlang", preset="quick")
    for cell in sweep.select(role="best", arm="copy_paste"):
        print(cell["task.vocab"], cell.seed, cell.value("test/accuracy"))
"""

from .results import Array, Cell, ResultsError, Sweep, load_sweep

__all__ = ["Array", "Cell", "ResultsError", "Sweep", "load_sweep"]
