"""Mutants of kernels that run on ranks: files with one mistake in them, each run on every case.

All mutants of a package run in one launch. A mutant may compute wrongly or raise, on every rank of
a group alike; it may not leave a message behind, which would spoil the group for the next one.
"""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dtlib.ranks.launcher import launch
from tests.scratch_cases import ROUNDING

Mutant = tuple[str, str, str]  # module, old words, new words


def install(modules: Sequence[str], changed: str = "", old: str = "", new: str = "") -> None:
    """Run the files of `modules` again in their modules, one of them with other words."""
    for name in modules:
        source = Path(str(importlib.import_module(name).__file__)).read_text("utf-8")
        if name == changed:
            assert source.count(old) == 1, f"{name}: {source.count(old)} times {old}"
            source = source.replace(old, new)
            if "dist." in new and "import torch.distributed as dist" not in source:
                source = source.replace(
                    "\nfrom torch", "\nimport torch.distributed as dist\nfrom torch", 1
                )
        exec(compile(source, name, "exec"), sys.modules[name].__dict__)


def largest(drawn: Sequence[Any], apart: Callable[[Any], float]) -> float:
    """The largest difference of all cases and ranks, up to the first one that is too large."""
    for case in drawn:
        try:
            gap = apart(case)
        except (
            RuntimeError,
            ValueError,
            IndexError,
            TypeError,
            AttributeError,
        ):  # shapes that do not fit
            gap = float("inf")
        everywhere = torch.tensor(gap)
        dist.all_reduce(everywhere, dist.ReduceOp.MAX)
        if not everywhere < ROUNDING:
            return float(everywhere)
    return 0.0


def all_of(
    modules: Sequence[str],
    mutants: Sequence[Mutant],
    drawn: Sequence[Any],
    apart: Callable[[Any], float],
) -> list[float]:
    """For the kernels as they are, and then for each mutant, the largest difference."""
    found = []
    for mutant in [(), *mutants]:
        install(modules, *mutant)
        found.append(largest(drawn, apart))
    return found


def check(
    modules: Sequence[str],
    mutants: Sequence[Mutant],
    drawn: Sequence[Any],
    apart: Callable[[Any], float],
    ranks: int,
) -> None:
    """Launch them all, print how many of each module were caught, and let none survive."""
    found = launch(all_of, modules, mutants, drawn, apart, ranks=ranks, timeout=20, show=False)
    right, *wrong = found[0]
    assert right == 0.0
    survivors = [mutant for mutant, gap in zip(mutants, wrong, strict=True) if gap == 0.0]
    for name, total in Counter(name for name, *_ in mutants).items():
        left = sum(survivor[0] == name for survivor in survivors)
        print(f"{name}: {total - left} of {total} mutants caught")
    assert survivors == []
