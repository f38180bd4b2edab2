"""The table of claims (results/README.md) and the experiments agree: every claim has a row, every row has its results."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "results" / "reference"
TABLE = (ROOT / "results" / "README.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in TABLE.splitlines()
    if line.startswith("|") and not line.startswith(("| claim", "|---"))
]
COLUMNS = 6  # claim, paper, command, here, n, verdict


def claims_of(row):
    """The numbers that open a row: "C2, C44 fewer tokens …" -> C2, C44."""
    return re.match(r"[A-Z]\d+(, [A-Z]\d+)*", row[0]).group().split(", ")


def claims_of_experiment(path):
    found = re.search(r"^claims: \[(.*)\]$", path.read_text(), re.MULTILINE)
    return found.group(1).split(", ") if found else []


EXPERIMENTS = sorted((ROOT / "configs").glob("*.yaml"))
PUBLISHED = [path for path in EXPERIMENTS if (REFERENCE / path.stem).is_dir()]


def test_rows_are_whole():
    for row in ROWS:
        assert len(row) == COLUMNS and all(row), row
        assert claims_of(row)


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_every_claim_of_a_published_experiment_has_a_row(path):
    missing = set(claims_of_experiment(path)) - {claim for row in ROWS for claim in claims_of(row)}
    assert not missing, f"no row in results/README.md for {sorted(missing)}"


def test_commands_have_results():
    named = {name for row in ROWS for name in re.findall(r"`run ([\w-]+)", row[2])}
    assert named
    assert named <= {path.stem for path in PUBLISHED}


def test_published_results_are_spoken_of():
    silent = {path.stem for path in PUBLISHED if path.stem not in TABLE}
    assert not silent, f"results/README.md says nothing of {sorted(silent)}"


@pytest.mark.parametrize("page", ["README.md", "results/README.md"])
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}"
