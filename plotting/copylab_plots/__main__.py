"""Command line: python -m copylab_plots figures NAME ... | whence FILE ..."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .results import PRESETS, ResultsError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="copylab", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)

    figures = verbs.add_parser("figures", help="draw figures from results")
    figures.add_argument("names", nargs="*", metavar="NAME", help="default: every figure that has results")
    figures.add_argument("--from", dest="source", type=Path, default=Path("results"), metavar="DIR",
                         help="folder with results (default: results)")
    figures.add_argument("--to", type=Path, metavar="DIR", help="folder for figures (default: beside the results)")
    figures.add_argument("--preset", choices=PRESETS, help="default: the most complete there is")
    figures.add_argument("--allow-missing", action="store_true", help="draw hatched marks for missing cells")

    origin = verbs.add_parser("whence", help="print the runs that a figure was drawn from")
    origin.add_argument("files", nargs="+", type=Path, metavar="FILE")

    options = parser.parse_args(arguments)
    try:
        return _figures(options) if options.verb == "figures" else _whence(options)
    except ResultsError as error:
        print(f"copylab {options.verb}: {error}", file=sys.stderr)
        return 1


def _figures(options: argparse.Namespace) -> int:
    from .figures import REGISTRY, make  # here, so that whence starts without matplotlib

    names = options.names
    if not names:
        names = [n for n, e in REGISTRY.items() if any((options.source / e.experiment).glob("sweep-*.h5"))]
        if not names:
            raise ResultsError(f"no results in {options.source}; make some with:  ./copylab run spamlang")
    for name in names:
        for path in make(name, options.source, options.to, options.preset, options.allow_missing):
            print(path)
    return 0


def _whence(options: argparse.Namespace) -> int:
    from .output import whence

    for file in options.files:
        for run in whence(file):
            print(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
