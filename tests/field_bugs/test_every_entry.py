"""Mistakes that people reported in public: every one has tests that show dtlib's behaviour.

A test says which one it shows in a comment above it, `# field bug 1.06`. Most stand beside what
they test; those of this folder show what no single module could: all strategies at once, and the
frameworks' own behaviour beside dtlib's.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ENTRIES = {
    "1.01": "set_epoch forgotten, or a sampler that differs between ranks",
    "1.02": "an evaluation that counts padded duplicates",
    "1.03": "a metric that is reduced to a scalar before it is gathered",
    "1.05": "gradient accumulation as a mean of means over tokens",
    "1.06": "the same across ranks",
    "1.07": "a missing division by the accumulation steps, hidden by Adam",
    "1.09": "no_sync around the wrong half; training past the wrapper",
    "1.11": "ranks with unequally many batches",
    "1.12": "parameters that the loss does not see",
    "1.14": "the same augmentation on every rank or worker",
    "1.15": "every rank, or every node's first, writes the checkpoint",
    "1.16": "torch.load without map_location",
    "3.02": "no NCCL in this build",
    "3.03": "DeepSpeed's batch identity",
    "3.04": "a scheduler that steps once for every rank",
    "3.05": "operators built on the spot; libaio missing",
    "3.08": "steps that are skipped for an overflow",
    "3.09": "DeepSpeed on a machine with only a CPU, or without it",
    "4.01": "a clip before unscale",
    "4.03": "a learning rate that moves on in a skipped step",
    "4.04": "the range of fp16",
    "4.06": "old names of mixed precision",
    "5.01": "a resume in mid-epoch that reshuffles and then skips the wrong samples",
    "5.03": "a checkpoint that is not written in one piece",
    "5.04": "weights_only is the default since torch 2.6",
    "5.06": "a checkpoint under another number of ranks; a missing key",
}
TESTS = Path(__file__).resolve().parent.parent
MARK = re.compile(r"^# field bugs? (\d\.\d\d(?:, | and |\d\.\d\d)*)")


def marks_above(path: Path) -> Iterator[tuple[str, str]]:
    """Yield `(entry, test)` for each mark in the comment above a test."""
    lines = path.read_text().splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            above = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 2
            while above >= 0 and lines[above].startswith("#"):
                if match := MARK.match(lines[above]):
                    yield from ((n, node.name) for n in re.findall(r"\d\.\d\d", match[1]))
                above -= 1


@pytest.fixture(scope="module")
def marked() -> dict[Path, list[tuple[str, str]]]:
    return {path: list(marks_above(path)) for path in sorted(TESTS.rglob("test_*.py"))}


@pytest.mark.parametrize("number", ENTRIES)
def test_every_entry_has_a_test(number, marked):
    assert number in {n for found in marked.values() for n, _ in found}, ENTRIES[number]


def test_every_mark_stands_above_a_test(marked):
    """One that a refactoring left behind would be counted for nothing."""
    for path, found in marked.items():
        lines = filter(None, map(MARK.match, path.read_text().splitlines()))
        written = [n for line in lines for n in re.findall(r"\d\.\d\d", line[1])]
        assert sorted(written) == sorted(n for n, _ in found), path
