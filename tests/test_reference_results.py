"""The committed results lie in the bands of their experiments, as README says."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BINARY = os.environ.get("COPYLAB_BINARY", str(ROOT / "build" / "copylab"))
EXPERIMENTS = [
    folder.name
    for folder in sorted((ROOT / "results" / "reference").iterdir())
    if "expected:" in (ROOT / "configs" / f"{folder.name}.yaml").read_text()
]


def test_there_are_results_to_check():
    assert len(EXPERIMENTS) >= 15


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_results_lie_in_their_bands(experiment):
    command = [BINARY, "verify", experiment, "--preset", "quick", "--from", str(ROOT / "results" / "reference")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
