"""The launcher in a made-up checkout, with made-up tools, so that nothing is installed or compiled."""

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
NEEDED = "bash env dirname readlink git find awk nproc mkdir mktemp tee cat mv rm touch flock chmod cp sed grep".split()

# Stands for CMake: keeps a log; --build makes a program that prints its arguments, and prepared test programs.
CMAKE = """#!/bin/sh
echo "cmake $*" >> "$FAKES/log"
if [ "$1" = --build ]; then
  if [ -e "$FAKES/broken" ]; then echo "core/x.cpp:1: error: expected ;"; exit 1; fi
  cp "$FAKES/program" "$2/copylab"
  mkdir -p "$2/tests"
  cp "$FAKES/tests" "$2/tests/copylab_tests"
  mkdir -p "$2/tests/emulator"
  for name in emulator race; do cp "$FAKES/$name" "$2/tests/emulator/copylab_${name}_tests"; done
else
  touch "$4/CMakeCache.txt"
fi
"""
APT = """#!/bin/sh
echo "apt-get $*" >> "$FAKES/log"
case "$1" in install) for tool in cmake ninja c++; do cp "$FAKES/cmake" "$FAKES/bin/$tool"; done ;; esac
"""


class Checkout:
    def __init__(self, folder: Path):
        self.top, self.fakes = folder / "a check out", folder / "fakes"
        for part in ("core", "tasks", "experiments", "tests", "plotting/tests"):
            (self.top / part).mkdir(parents=True)
        shutil.copy(TOP / "copylab", self.top / "copylab")
        (self.top / "CMakeLists.txt").touch()
        (self.top / "core/x.cpp").touch()
        (self.fakes / "bin").mkdir(parents=True)
        for tool in NEEDED:
            (self.fakes / "bin" / tool).symlink_to(shutil.which(tool))
        self.script("bin/apt-get", APT)
        self.script("bin/sudo", "#!/bin/sh\n[ \"$1\" = -n ] && shift\nexec \"$@\"\n")
        self.script("cmake", CMAKE)
        self.script("program", "#!/bin/sh\necho \"program: $*\"\n")
        self.script("tests", "#!/bin/sh\necho 'All tests passed (10 assertions in 3 test cases)'\n")
        for name in ("emulator", "race"):
            self.script(name, "#!/bin/sh\necho 'All tests passed (9 assertions in 1 test case)'\n")
        self.script("python", f'#!/bin/sh\n[ "$1" = -c ] && exit 0\ncat "$FAKES/pytest"; exit $(cat "$FAKES/pytest.rc")\n')
        self.pytest("4 passed in 0.10s", 0)

    def script(self, name: str, text: str) -> None:
        path = self.fakes / name
        path.write_text(text)
        path.chmod(0o755)

    def pytest(self, text: str, status: int) -> None:
        (self.fakes / "pytest").write_text(text + "\n")
        (self.fakes / "pytest.rc").write_text(str(status))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        env = {"PATH": str(self.fakes / "bin"), "FAKES": str(self.fakes), "HOME": str(self.fakes), **environment}
        env.setdefault("COPYLAB_PYTHON", str(self.fakes / "python"))
        command = [str(self.top / "copylab"), *arguments]
        return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def log(self) -> list:
        path = self.fakes / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def built(checkout):
    assert checkout.run("list").returncode == 0
    checkout.log()
    return checkout


def test_first_use_installs_what_is_missing_builds_and_runs(checkout):
    done = checkout.run("run", "spamlang", "--out", "a b")
    assert (done.returncode, done.stdout) == (0, "program: run spamlang --out a b\n")
    assert "copylab: missing: g++ cmake ninja-build" in done.stderr
    log = [line for line in checkout.log() if line != "apt-get update"]
    assert log[0].startswith("apt-get install -y --no-install-recommends g++ cmake ninja-build")
    assert log[1] == f"cmake -S {checkout.top} -B {checkout.top}/build -G Ninja -DCOPYLAB_TESTS=OFF -DCOPYLAB_BENCH=OFF"
    assert log[2].startswith(f"cmake --build {checkout.top}/build --target copylab_bin --parallel ")


def test_nothing_is_installed_against_the_users_will(checkout):
    done = checkout.run("list", COPYLAB_NO_INSTALL="1")
    assert done.returncode == 2
    assert "run this first:  sudo apt-get update && sudo apt-get install -y g++ cmake ninja-build" in done.stderr
    assert not checkout.log()


def test_later_calls_start_at_once(built):
    assert built.run("list").stdout == "program: list\n"
    assert not built.log()


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_changed_sources_are_built(built, change):
    source = built.top / "core/x.cpp"
    if change == "edit":
        source.write_text("// new")
    elif change == "add":
        (built.top / "tasks/new.cpp").touch()
    else:
        source.unlink()
    assert built.run("list").stdout == "program: list\n"
    assert any("--build" in line for line in built.log())


def test_sources_that_do_not_compile_are_not_run(built):
    (built.top / "core/x.cpp").write_text("// bad")
    (built.fakes / "broken").touch()
    for _ in range(2):  # the second time too: a failed build is never taken for a good one
        done = built.run("list")
        assert (done.returncode, done.stdout) == (2, "")
        assert "core/x.cpp:1: error: expected ;" in done.stderr
    (built.fakes / "broken").unlink()
    assert built.run("list").stdout == "program: list\n"


def test_exit_code_is_the_programs(built):
    (built.top / "build/copylab").write_text("#!/bin/sh\nexit 3\n")
    assert built.run("verify", "spamlang").returncode == 3


CATCH_FAILED = "test cases: 5 | 3 passed | 1 failed | 1 failed as expected\nassertions: 90 | 80 passed | 10 failed"


@pytest.mark.parametrize(
    "catch, catch_status, pytest_text, pytest_status, summary, status",
    [
        ("All tests passed (1 assertion in 1 test case)", 0, "4 passed in 0.10s", 0, "7 passed, 0 failed", 0),
        (CATCH_FAILED, 1, "4 passed, 2 skipped in 61.20s (0:01:01)", 0, "9 passed, 1 failed", 1),
        ("All tests passed (9 assertions in 3 test cases)", 0, "2 failed, 4 passed, 1 error in 0.10s", 1, "9 passed, 3 failed", 1),
        ("Segmentation fault", 139, "4 passed in 0.10s", 0, "6 passed, 1 failed", 1),
        ("All tests passed (9 assertions in 3 test cases)", 0, "INTERNALERROR", 3, "5 passed, 1 failed", 1),
    ],
)
def test_summary_counts_all_test_programs(checkout, catch, catch_status, pytest_text, pytest_status, summary, status):
    checkout.script("tests", f"#!/bin/sh\necho '{catch}'\nexit {catch_status}\n")
    checkout.pytest(pytest_text, pytest_status)
    done = checkout.run("test")
    assert done.stdout.splitlines()[-1] == summary
    assert done.returncode == status


def test_a_race_that_is_found_counts_as_failed(checkout):
    checkout.script("race", "#!/bin/sh\necho 'test cases: 2 | 1 passed | 1 failed'\nexit 1\n")
    done = checkout.run("test")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "9 passed, 1 failed")


def test_a_build_that_fails_is_a_failed_test(checkout):
    (checkout.fakes / "broken").touch()
    done = checkout.run("test")
    assert (done.returncode, done.stdout) == (1, "0 passed, 1 failed\n")
    assert "error: expected ;" in done.stderr


def test_a_filter_runs_only_the_tests_it_names(checkout):
    checkout.script("tests", "#!/bin/sh\necho \"asked for: $*\"\necho 'All tests passed (1 assertion in 1 test case)'\n")
    done = checkout.run("test", "[attention]")
    assert done.stdout == "asked for: [attention]\nAll tests passed (1 assertion in 1 test case)\n1 passed, 0 failed\n"


def test_figures_need_no_build(checkout):
    checkout.script("python", "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho \"python $*\"\n")
    expected = f"python -m copylab_plots figures --from {checkout.top}/results spamlang\n"
    assert checkout.run("figures", "spamlang").stdout == expected
    assert not checkout.log()
