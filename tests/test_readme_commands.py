"""The runner of README commands: what it takes for a command, and at what size it runs them."""

import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

loader = importlib.machinery.SourceFileLoader("readme", str(Path(__file__).parents[1] / ".ci" / "readme"))
readme = importlib.util.module_from_spec(importlib.util.spec_from_loader("readme", loader))
loader.exec_module(readme)

TEXT = """
```sh
not run
```

<!-- run -->
```sh
./copylab list
```

```python run
print(1)
```
"""


def test_only_marked_blocks_run():
    assert readme.blocks(TEXT) == [("sh", "./copylab list\n"), ("python", "print(1)\n")]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("./copylab run spamlang", "./copylab run spamlang --preset smoke"),
        ("./copylab run spamlang  # ten minutes", "./copylab run spamlang --preset smoke  # ten minutes"),
        ("./copylab run spamlang --preset full", "./copylab run spamlang --preset full"),
        ("./copylab list tasks", "./copylab list tasks"),
    ],
)
def test_commands_run_at_smoke_size(line, expected):
    assert readme.at_smoke_size(line) == expected


def test_a_failing_block_is_reported():
    assert readme.run("sh", "true\ntrue")
    assert not readme.run("sh", "false\ntrue")
