"""Where several processes share the tests, those of a file stay on one of them."""

import os
from pathlib import Path

import pytest

pytest.importorskip("xdist")

from processes import python
from scheduling import group

HERE = Path(__file__).resolve().parent
HOOK = """
import pytest
def pytest_xdist_make_scheduler(config, log):
    from scheduling import ByFile
    return ByFile(config, log)
"""
NOTES = """
import os, pathlib, pytest
@pytest.mark.parametrize("number", range(6))
def test_note(number):
    with pathlib.Path(__file__).with_suffix(".pids").open("a") as file:
        print(os.getpid(), file=file)
"""


def test_the_tests_of_a_file_run_on_one_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HOOK)
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(NOTES)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    words = ("-m", "pytest", "-n2", "-pno:cacheprovider", f"--rootdir={tmp_path}")
    done = python(*words, cwd=tmp_path, env=env | {"PYTHONPATH": str(HERE)})
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = ((tmp_path / f"test_{name}.pids").read_text().split() for name in "ab")
    assert len(first) == len(second) == 6
    assert len({*first}) == len({*second}) == 1 and first[0] != second[0]


@pytest.mark.parametrize(("name", "shared"), [
    ("tests/lessons/test_run.py::test_a[b::c]", "tests/lessons/test_run.py"),
    ("tests/slurm/test_scripts.py::test_a", "tests/slurm/"),
    ("tests/book/test_site.py::test_a", "tests/book/"),
    ("tests/lessons/test_banks.py::test_a[b::c]", "tests/lessons/test_banks.py::test_a[b::c]"),
])  # fmt: skip
def test_what_a_test_shares_its_process_with(name: str, shared: str) -> None:
    assert group(name, HERE.parent) == shared
