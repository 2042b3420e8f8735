"""What a rank's log tells: an error that it raised, how it ended, and its checksums."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from dtlib.measure.clinic.stacks import Frame, place
from dtlib.ranks.outcome import PEER_GONE, TIMED_OUT, plain, signal_name
from dtlib.ranks.where import Where

_NAMED = re.compile(r"^\[rank(\d+)\]:", re.M)
_LOCAL = re.compile(r"^\[default\d+\]:", re.M)
# "[rank1]: " by torch, "[default1]:" by torchrun's --tee, "1: " by srun --label
_PREFIX = re.compile(r"^(?:\[(?:rank|default)(\d+)\]:?|(\d+):) ?", re.M)
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n((?:[ \t]+.*\n|\n)+)([A-Za-z_][\w.]*)(?:: (.*))?"
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.M)
_CHECKSUM = re.compile(r"\bstep\W{0,3}(\d+)\b.*?\b(\w*checksum\w*)\W{1,3}([\w.+-]+)", re.I)
_FAILURES = re.compile(r"^\s*rank\s+: (\d+) \(local_rank: (\d+)\)\n\s*exitcode\s+: (-?\d+)", re.M)


_EXPIRED = re.compile(
    r"(?:\[PG (?:ID |GUID )?(\S+)[^\]]*\]|\[Rank \d+\])? ?"
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+), OpType=(\w+)"
    r"(?:, NumelIn=(\d+))?(?:, NumelOut=(\d+))?[^)]*"
    r"(?:\(ms\)=\d+)?\) ran for (\d+) milliseconds"
)
_OF = re.compile(r"\bRank (\d+)\] +Watchdog caught")  # where no prefix says it
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.M)
# faulthandler's names of signals
_SIGNALS = {
    "Aborted": "SIGABRT", "Segmentation fault": "SIGSEGV", "Bus error": "SIGBUS",
    "Floating-point exception": "SIGFPE", "Illegal instruction": "SIGILL",
}  # fmt: skip
LONG = 120  # characters of an error's text; of a longer one the first sentence is shown


@dataclass(frozen=True)
class Raised:
    """An error in a log, and the line of user code that it came through last."""

    error: str
    message: str
    where: Where

    @property
    def timed_out(self) -> bool:
        """Whether it ran out of time while it waited for other ranks."""
        return bool(TIMED_OUT.search(self.message))

    @property
    def consequence(self) -> bool:
        """Whether it follows from what another rank did."""
        return self.timed_out or bool(PEER_GONE.search(self.message))

    def __str__(self) -> str:
        first = self.message.split(". ")[0] if len(self.message) > LONG else self.message
        text = f"{self.error}: {first}" if first else self.error
        return text + (f" ({self.where.place})" if self.where.place else "")


@dataclass(frozen=True)
class Expired:
    """A collective that NCCL's watchdog ended; `elements` are those that the rank sends."""

    group: str
    number: int
    operation: str
    elements: int | None
    received: int | None
    seconds: float

    def __str__(self) -> str:
        size = f" of {self.elements} elements" if self.elements is not None else ""
        if self.received != self.elements:
            size += f" ({self.received} received)"
        return f"{self.operation} {self.number}{size}"


@dataclass
class Log:
    """What one rank wrote."""

    raised: list[Raised] = field(default_factory=list)
    checksums: dict[tuple[str, int], str] = field(default_factory=dict)
    expired: list[Expired] = field(default_factory=list)


def split(text: str) -> dict[int | None, str]:
    """Divide a job's output among its ranks; None is for the lines that name no rank."""
    parts: dict[int | None, list[str]] = {}
    for line in text.splitlines():
        found = _PREFIX.match(line)
        rank = int(found[1] or found[2]) if found else None
        if found is None and (own := _OF.search(line)):
            rank = int(own[1])
        parts.setdefault(rank, []).append(line[found.end() :] if found else line)
    return {rank: "\n".join(lines) + "\n" for rank, lines in parts.items()}


def crash(text: str) -> str:
    """Return how a rank died by what faulthandler wrote; "" if it wrote nothing."""
    found = _FATAL.search(text)
    return f"was killed by {_SIGNALS.get(found[1], found[1])}" if found else ""


def asked(text: str) -> bool:
    """Return whether somebody sent SIGABRT for the stack, rather than C++ in an error's course."""
    return crash(text).endswith("SIGABRT") and "terminate called" not in text


def named(text: str) -> set[int]:
    """Return the ranks that torch wrote before lines: global ones, on any node."""
    return {int(rank) for rank in _NAMED.findall(text)}


def labelled(text: str) -> bool:
    """Return whether a text is a job's: most of its lines begin with a rank, or NCCL names one."""
    lines = [line for line in text.splitlines() if line.strip()]
    return 2 * sum(map(bool, map(_PREFIX.match, lines))) > len(lines) or bool(_OF.search(text))


def by_local_rank(text: str) -> bool:
    """Return whether torchrun put local ranks before the lines of a job on several nodes."""
    elsewhere = any(rank != local for rank, local, _ in _FAILURES.findall(text))
    return elsewhere and bool(_LOCAL.search(text))


def without_local(text: str) -> str:
    """Return a job's output without the lines that torchrun put a local rank before."""
    return "".join(line for line in text.splitlines(True) if not _LOCAL.match(line))


def read(text: str) -> Log:
    """Read the lines of one rank."""
    log = Log()
    for frames, error, message in _TRACEBACK.findall(text):
        stack = [Frame(file, int(n), name) for file, n, name in _FRAME.findall(frames)][::-1]
        log.raised.append(Raised(error, plain(message), place(stack)))
    for line in text.splitlines():
        log.checksums.update(_checksums(line))
    log.expired += map(_expired, _EXPIRED.finditer(text))
    return log


def _expired(found: re.Match[str]) -> Expired:
    sent, received = (int(n) if n else None for n in found.group(4, 5))
    return Expired(found[1] or "0", int(found[2]), found[3], sent, received, int(found[6]) / 1000)


def exits(text: str) -> dict[int, str]:
    """Return how torchrun says that ranks ended, other than those that it ended itself."""
    codes = {int(rank): int(code) for rank, _, code in _FAILURES.findall(text)}
    return {
        rank: f"was killed by {signal_name(code)}" if code < 0 else f"left with exit code {code}"
        for rank, code in codes.items()
        if code != -15
    }


def _checksums(line: str) -> dict[tuple[str, int], str]:
    """Return the checksums of a line: JSON with a step, or "step 3: checksum 1.25"."""
    if line.startswith("{"):
        try:
            row: dict[str, Any] = json.loads(line)
            step = int(row["step"])
        except (ValueError, KeyError, TypeError):
            return {}
        return {(name, step): str(v) for name, v in row.items() if "checksum" in name.lower()}
    found = _CHECKSUM.search(line)
    return {(found[2].lower(), int(found[1])): found[3].rstrip(".")} if found else {}
