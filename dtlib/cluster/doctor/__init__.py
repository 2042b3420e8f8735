"""What this machine can run, and a remedy for what it cannot: `dtlib doctor`.

Every probe asks one question, and sees the machine only through a `Machine`, so that tests can
take any part of it away. A probe never hangs and never shows a traceback.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TextIO

from dtlib import __version__
from dtlib.cluster.doctor.machine import Finding, Machine
from dtlib.cluster.doctor.nodes import Answers, examine_nodes, table
from dtlib.cluster.doctor.probes_system import SYSTEM
from dtlib.cluster.doctor.probes_torch import TORCH
from dtlib.cluster.doctor.probes_training import TRAINING
from dtlib.cluster.doctor.tools import TOOLS, missing_tools
from dtlib.config.terminal import painted
from dtlib.errors import Unavailable
from dtlib.ranks.waiting import answers_within

__all__ = [
    "PROBES", "Finding", "Machine", "examine", "examine_nodes", "look", "missing_tools", "report"
]  # fmt: skip

Probe = Callable[[Machine], Finding]
PROBES: tuple[Probe, ...] = (*SYSTEM, *TORCH, *TRAINING, *TOOLS)
PATIENCE = 120.0  # seconds; the slowest probe imports DeepSpeed on a busy machine
CANNOT_RUN = Unavailable.exit_code
# Probes without whose answer lessons may not run.
REQUIRED = ("python", "packages", "torch", "ports", "collective")


def look(*, nodes: bool = False, as_json: bool = False) -> int:
    """Examine this machine or all nodes of the allocation, print a report, return the exit code."""
    if not nodes:
        return report(examine(), as_json=as_json)
    answers, findings = examine_nodes(Machine.here())
    return report(findings, as_json=as_json, nodes=answers)


def examine(
    machine: Machine | None = None, probes: Sequence[Probe] = PROBES, *, patience: float = PATIENCE
) -> list[Finding]:
    """Ask every probe, all at once, and return their findings in order.

    Parameters
    ----------
    machine
        What the probes look at (default: this machine).
    probes
        Functions from a `Machine` to a `Finding`.
    patience
        Seconds after which a probe that has not answered is reported.
    """
    asked = machine or Machine.here()
    answers = answers_within(patience, [partial(probe, asked) for probe in probes])
    return [
        answer if isinstance(answer, Finding) else _unanswered(probe, answer)
        for probe, answer in zip(probes, answers, strict=True)
    ]


def report(
    findings: Sequence[Finding],
    *,
    as_json: bool = False,
    nodes: Answers | None = None,
    file: TextIO | None = None,
) -> int:
    """Print the findings, and return 0 if lessons can run here (on all `nodes`), else 69."""
    file = file or sys.stdout
    failed = [finding for finding in findings if finding.state == "missing"]
    if as_json:
        everything = {"dtlib": __version__, "ready": not failed}
        everything |= {} if nodes is None else {"nodes": list(nodes.values())}
        everything["findings"] = [finding.as_dict() for finding in findings]
        print(json.dumps(everything), file=file)
        return CANNOT_RUN if failed else 0
    where = "here"
    if nodes is not None:
        table(nodes, file)
        where = "over these nodes"
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        state = painted(f"{finding.state:<8}", file)
        print(f"{state} {finding.name:<{width}}  {finding.found}", file=file)
        if finding.remedy:
            print(f"{'':<{8 + width}}   → {finding.remedy}", file=file)
    names = ", ".join(finding.name for finding in failed)
    verdict = f"Lessons cannot run {where} yet: {names}." if failed else f"Lessons can run {where}."
    print(f"\n{verdict}", file=file)
    return CANNOT_RUN if failed else 0


def _unanswered(probe: Probe, error: BaseException) -> Finding:
    """Return the finding for a probe that failed or did not answer in time."""
    late = isinstance(error, TimeoutError)
    said = f"{error}" if late else f"the probe itself failed: {type(error).__name__}: {error}"
    name = probe.__name__
    state: Literal["missing", "note"] = "missing" if name in REQUIRED else "note"
    return Finding(
        name.replace("_", " "), state, said, "run it again; if that fails too, report it"
    )
