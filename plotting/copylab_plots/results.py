"""Results of an experiment as copylab writes them: the cells of a sweep and what each measured."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")  # some network file systems have no locks

import h5py
import numpy as np

PRESETS = ("paper", "full", "quick", "smoke", "custom")  # the most complete first; custom: altered on the command line
ROLES = ("tune", "best", "same")
FIXED_COLUMNS = {"run", "arm", "seed", "status", *ROLES}


class ResultsError(Exception):
    """Results that are absent, unfinished or not copylab's; the message is for the user."""


@dataclass(frozen=True)
class Array:
    """A measured array with named axes."""

    values: np.ndarray
    dims: tuple[str, ...]
    coords: dict[str, np.ndarray]  # values or names along an axis, where the measure gave them
    doc: str = ""

    def at(self, **where: float | str) -> "Array":
        """The part at given coordinates, e.g. at(step=0) or at(slice="new"); each named axis disappears."""
        values, dims = self.values, list(self.dims)
        for dim, wanted in where.items():
            found = np.flatnonzero(self.coords[dim] == wanted)
            if len(found) != 1:
                raise ResultsError(f"no {dim} = {wanted}: there are {list(self.coords[dim])}")
            values = np.take(values, found[0], axis=dims.index(dim))
            dims.remove(dim)
        return Array(values, tuple(dims), self.coords, self.doc)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep. cell["task.vocab"] is its value of any config field, swept or not."""

    experiment: str
    run: str
    arm: str
    seed: int
    status: str  # done | failed | missing
    roles: frozenset
    coordinates: dict[str, Any] = field(hash=False)
    folder: Path = field(hash=False)

    @property
    def done(self) -> bool:
        return self.status == "done"

    def __str__(self) -> str:
        swept = "".join(f", {path} = {_plain(value)}" for path, value in self.coordinates.items())
        return f"{self.arm}{swept}, seed {self.seed}"

    def __getitem__(self, path: str) -> Any:
        if path in self.coordinates:
            return self.coordinates[path]
        if path not in self.config:
            raise ResultsError(f"{self.folder}: no config field {path}")
        return self.config[path]

    def get(self, path: str, default: Any = None) -> Any:
        if path in self.coordinates:
            return self.coordinates[path]
        return self.config.get(path, default) if self.done else default

    @cached_property
    def config(self) -> dict[str, Any]:
        """Every config field of the run, by dotted path."""
        with self._open() as file:
            return {name: _plain(value) for name, value in file["config"].attrs.items()}

    def has(self, address: str) -> bool:
        with self._open() as file:
            return f"eval/{address}" in file

    def array(self, address: str) -> Array:
        """What a measure stored, e.g. array("gradient_rank/r") or the series array("valid/loss")."""
        with self._open() as file:
            if f"eval/{address}" not in file:
                raise ResultsError(f"{self.folder / 'metrics.h5'}: no {address}")
            dataset = file[f"eval/{address}"]
            dims = tuple(_names(dataset.attrs.get("dims", ())))
            coords = {}
            for group in (dataset.parent.parent, dataset.parent):  # arrays over training lie one group deeper
                coords.update({dim: _along(group[dim]) for dim in dims if dim in group})
            doc = _plain(dataset.attrs.get("doc", ""))
            return Array(np.asarray(dataset[()], dtype=float), dims, coords, doc)

    def value(self, address: str) -> float:
        """A single number, e.g. value("test/accuracy")."""
        values = self.array(address).values
        if values.size != 1:
            raise ResultsError(f"{self.folder / 'metrics.h5'}: {address} is not one number: {values.shape}")
        return float(values.reshape(()))

    def trained(self, column: str = "tokens") -> float:
        """The last entry of a training series: tokens or step; 0 of a run without updates."""
        with self._open() as file:
            series = file[f"train/{column}"][()]
            return float(series[-1]) if len(series) else 0.0

    @cached_property
    def before(self) -> list[Cell]:
        """The runs of the stages before, as far as they are there, the first one first: each started from the weights
        of the one before it."""
        parent = self.config.get("run.parent", "")
        found = next(iter(sorted(self.folder.parent.parent.glob(f"*/*-{parent}"))), None) if parent else None
        if found is None:
            return []
        stage = replace(self, run=found.name, coordinates={}, folder=found)
        return [*stage.before, stage]

    def _open(self) -> h5py.File:
        try:
            return h5py.File(self.folder / "metrics.h5", "r")
        except OSError as error:
            raise ResultsError(f"{self.folder / 'metrics.h5'}: cannot be read ({error})") from None


@dataclass(frozen=True)
class Sweep:
    """All cells of an experiment at one preset, whether done or not."""

    experiment: str
    preset: str
    title: str
    command: str
    select_over: str  # the field tuned per arm (usually train.lr); empty when nothing is selected
    cells: tuple[Cell, ...]

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def select(self, role: str | None = None, **where: Any) -> list[Cell]:
        """Cells with a role (best: tuned per arm; same: one value for all arms; tune: the candidates) and
        with given values: select(role="best", arm="vanilla", **{"task.vocab": 1024})."""

        def wanted(cell: Cell) -> bool:
            if role is not None and role not in cell.roles:
                return False
            return all(
                (getattr(cell, key) if key in ("arm", "seed", "status") else cell.get(key)) == value
                for key, value in where.items()
            )

        return [cell for cell in self.cells if wanted(cell)]

    def setting(self, cell: Cell, path: str, default: Any = None) -> Any:
        """A config field of a cell, also of one that is not done: then as other cells of its arm have it."""
        if path in cell.coordinates:
            return cell.coordinates[path]
        peers = [cell] if cell.done else [c for c in self.cells if c.arm == cell.arm and c.done]
        return next((c.config[path] for c in peers if path in c.config), default)

    def require(self, cells: Iterable[Cell]) -> None:
        """Raises ResultsError naming every cell that is not done."""
        absent = [cell for cell in cells if not cell.done]
        if absent:
            lines = "".join(f"\n  {cell.status}: {cell}" for cell in absent)
            raise ResultsError(f"{self.experiment} ({self.preset}): {len(absent)} cells are not done:{lines}")


def grouped(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    """Cells by key, in the order of the keys."""
    found: dict[Any, list[Cell]] = {}
    for cell in sorted(cells, key=key):
        found.setdefault(key(cell), []).append(cell)
    return found


def load_sweep(results: str | os.PathLike, experiment: str, preset: str | None = None) -> Sweep:
    """The sweep of an experiment below a results folder; without `preset`, the most complete one there."""
    folder = Path(results) / experiment
    if preset is None:
        preset = next((p for p in PRESETS if (folder / f"sweep-{p}.h5").exists()), "quick")
    path = folder / f"sweep-{preset}.h5"
    if not path.exists():
        raise ResultsError(f"{path} is not there; make it with:  ./copylab run {experiment} --preset {preset}")
    try:
        with h5py.File(path, "r") as file:
            head = {name: _plain(value) for name, value in file.attrs.items()}
            columns = {name: [_plain(v) for v in column[()]] for name, column in file["cells"].items()}
    except (OSError, KeyError) as error:
        raise ResultsError(f"{path}: not a sweep file of copylab ({error})") from None

    swept = [name for name in columns if name not in FIXED_COLUMNS]
    cells = []
    for i, run in enumerate(columns["run"]):
        cells.append(
            Cell(
                experiment=experiment,
                run=run,
                arm=columns["arm"][i],
                seed=columns["seed"][i],
                status=columns["status"][i],
                roles=frozenset(role for role in ROLES if columns[role][i]),
                coordinates={name: columns[name][i] for name in swept},
                folder=_folder_of(Path(results), experiment, run),
            )
        )
    return Sweep(
        experiment, preset, head.get("title", experiment), head.get("command", ""), head.get("select_over", ""), tuple(cells)
    )


def _folder_of(results: Path, experiment: str, run: str) -> Path:
    """A run is usually in its experiment's folder; one that is shared may be in another's."""
    own = results / experiment / run
    if run and not own.exists():
        return next(iter(sorted(results.glob(f"*/{run}"))), own)
    return own


def _plain(value: Any) -> Any:
    """HDF5's scalars and strings as Python's."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.generic):
        return _plain(value.item())
    return value


def _along(dataset: h5py.Dataset) -> np.ndarray:
    """What stands along an axis: numbers, or names as str."""
    values = dataset[()]
    return np.array([_plain(v) for v in values]) if h5py.check_string_dtype(dataset.dtype) else values


def _names(value: Any) -> list[str]:
    if isinstance(value, (str, bytes)):
        return [name.strip() for name in _plain(value).split(",") if name.strip()]
    return [_plain(name) for name in value]
