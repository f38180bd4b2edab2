"""Makes copylab_plots importable for pytest wherever it is started."""
