"""How each rank of a launch ended, which of them failed first, and the sentence that reports it."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from dtlib.errors import DtlibError
from dtlib.ranks.where import Where

# Only the text of gloo's and NCCL's errors tells that a collective timed out or a peer went away.
TIMED_OUT = re.compile(r"[Tt]imed out|monitoredBarrier|Application timeout|wait timeout", re.I)
PEER_GONE = re.compile(
    r"closed by peer|reset by peer|Broken pipe|Connection (was )?(closed|refused)"
    r"|Connection was likely closed|remote process exited|Socket closed|pair closure",
    re.I,
)

# What torch's DETAIL level says when ranks call different collectives.
_FINGERPRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=\d+, OpType=(\w+)"
    r"(?:, TensorShape=\[([^\]]*)\], TensorDtypes=(\w+))?"
)

# Source file and advice around gloo's own words.
_GLOO_TRIM = re.compile(r"^\[/[^\]]*\] |This is typically caused by.*")


@dataclass
class Outcome:
    """How one rank ended.

    `status` is "ok" (then `value` is the function's result), "error" (it raised), "exit" (it left
    by `sys.exit` or `os._exit`), "killed" (by a signal), "timeout" (it waited too long for other
    ranks, or they for it) or "stopped" (the launcher ended it after another rank failed).
    `where` is what it was doing if it did not end by itself, or where its error came from;
    `patience` is how many seconds had passed when the launcher ended it; `host` is its node in a
    launch over several; `remark` is a sentence on what may cause such an end.
    """

    rank: int
    status: str
    value: Any = None
    error: str = ""
    message: str = ""
    traceback: str = ""
    where: Where | None = None
    output: str = ""
    code: Any = None
    raised: bytes | None = None
    patience: float | None = None
    at: float = 0.0
    host: str = ""
    remark: str = ""

    @property
    def who(self) -> str:
        """Name the rank, and its host if the ranks are on several: "rank 3 on n2"."""
        return f"rank {self.rank}" + (f" on {self.host}" if self.host else "")

    @property
    def peer_gone(self) -> bool:
        """Return whether it failed only because another rank went away."""
        return self.status == "error" and bool(PEER_GONE.search(self.message))


def text_of(error: BaseException) -> str:
    """Return an error's text; a user-defined error may fail to produce it."""
    try:
        return str(error)
    except Exception as inner:
        return f"(its text cannot be printed: {type(inner).__name__})"


def failed_in_collective(error: BaseException) -> bool:
    """Return whether an error's text is torch's about a collective that did not finish."""
    if not isinstance(error, RuntimeError):
        return False
    text = text_of(error)
    return bool(TIMED_OUT.search(text) or PEER_GONE.search(text))


def judge_text(outcome: Outcome) -> None:
    """Tell a collective that timed out from other errors."""
    from_torch = outcome.error == "RuntimeError" or outcome.error.startswith("Dist")
    if outcome.status == "error" and from_torch and TIMED_OUT.search(outcome.message):
        outcome.status = "timeout"


def crash_in_words(code: int, debug: bool) -> str:
    """Say what may have caused a rank's crash; "" if nothing is known.

    Under DETAIL torch wraps the process group, and 2.14 follows a null pointer when a DDP model
    asks for its backend (`Logger` in torch/nn/parallel/distributed.py): every time, in any program.
    """
    if code != -signal.SIGSEGV or not debug:
        return ""
    return (
        f"Under debug=True torch {version('torch')} may crash as soon as DistributedDataParallel "
        "wraps a model (2.14 always does); launch without debug to see whether that is the cause."
    )


class RankFailed(DtlibError):
    """A rank failed; all others were ended.

    Attributes
    ----------
    rank, host
        The rank that failed first, as the cause and not because a peer was gone; and its node, if
        the launch spans several.
    reason
        "error", "killed", "timeout" or "exit".
    error, message
        Type name and text of the exception, if there was one.
    traceback
        Its traceback, cut to the frames of the user's code.
    others
        What each other rank was doing.
    output
        What each rank wrote.
    sentence
        What happened, in one or two sentences; `str()` adds the traceback.
    """

    def __init__(self, sentence: str, outcome: Outcome, outcomes: list[Outcome]) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.rank, self.host, self.reason = outcome.rank, outcome.host, outcome.status
        self.error, self.message = outcome.error, outcome.message
        self.traceback = outcome.traceback
        self.others = {o.rank: doing(o) for o in outcomes if o.rank != outcome.rank}
        self.output = {o.rank: o.output for o in outcomes}

    def __reduce__(self) -> Any:
        return _rebuild, (self.sentence, self.__dict__)

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{self.traceback}".strip()

    def _render_traceback_(self) -> list[str]:
        """Show the user's frames in a notebook, not the launcher's (IPython's hook)."""
        return [f"RankFailed: {self.sentence}", "", *self.traceback.splitlines()]


def _rebuild(sentence: str, state: dict[str, Any]) -> RankFailed:
    error = RankFailed.__new__(RankFailed)
    Exception.__init__(error, sentence)
    error.__dict__.update(state)
    return error


def doing(outcome: Outcome) -> str:
    """Say in a few words what a rank was doing."""
    if outcome.status == "ok":
        return "had already returned"
    if outcome.status in ("killed", "exit"):
        return _ending(outcome)
    if outcome.status == "error" and not outcome.peer_gone:
        return f"had raised {outcome.error}"
    return f"was {outcome.where}" if outcome.where else "did not answer"


def blame(outcomes: list[Outcome], timeout: float) -> RankFailed | None:
    """Return the error that names the rank that failed first, or `None` if none failed.

    `timeout` is a collective's time-out in seconds.
    """
    failed = [o for o in outcomes if o.status != "ok"]
    if not failed:
        return None
    first = min(failed, key=lambda o: (_weight(o), o.at))
    if first.status in ("timeout", "stopped"):
        first, sentence = _absent(outcomes, failed, timeout)
        return RankFailed(sentence, first, outcomes)
    words = f"{_capital(first.who)} {_ending(first)}"
    others = _others([o for o in outcomes if o is not first])
    sentence = f"{words}; {others}." if others else f"{words}."
    sentence += f" {first.remark}" if first.remark else ""
    return RankFailed(sentence, first, outcomes)


def _weight(outcome: Outcome) -> int:
    """A cause weighs less than its consequences."""
    if outcome.peer_gone:
        return 2
    return {"killed": 0, "exit": 0, "error": 0, "timeout": 1, "stopped": 3}[outcome.status]


def _ending(outcome: Outcome) -> str:
    place = f" ({outcome.where.place})" if outcome.where and outcome.where.place else ""
    if outcome.status == "killed":
        return f"was killed by {signal_name(outcome.code)}"
    if outcome.status == "exit":
        return f"left with exit code {outcome.code}{place}"
    message = plain(outcome.message)
    return f"raised {outcome.error}" + (f": {message}" if message else "") + place


def plain(message: str) -> str:
    """Take the first line of an error's text; summarise a mismatch of collectives."""
    calls = _FINGERPRINT.findall(message)
    if len(calls) < 2:
        first = message.strip().split("\n")[0]
        return _GLOO_TRIM.sub("", first).strip().rstrip(".")
    words = [
        f"rank {rank} called {kind.lower()} on a tensor [{shape}] of {dtype}"
        for rank, kind, shape, dtype in calls[:2]
    ]
    return f"{words[0]} while {words[1]}"


def signal_name(code: int) -> str:
    """Name the signal of a negative exit code."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _absent(outcomes: list[Outcome], failed: list[Outcome], timeout: float) -> tuple[Outcome, str]:
    """Say which ranks waited in which collective, and which did not join it."""
    waiting = [o for o in failed if o.where and o.where.call]
    absent = [o for o in outcomes if o not in waiting]
    timeout = next((o.patience for o in failed if o.patience), timeout)
    limit = f"within {timeout:g} s"
    if not waiting:
        first = failed[0]
        return first, f"{_capital(first.who)} did not end {limit}; {_others(failed)}."
    calls = {o.where.call for o in waiting if o.where}
    if not absent:
        if len(calls) == 1:
            who = f"All {len(waiting)} ranks" if len(waiting) > 1 else _capital(waiting[0].who)
            verb = "were" if len(waiting) > 1 else "was"
            return waiting[0], f"{who} {verb} still {waiting[0].where} after {timeout:g} s."
        sentence = f"The ranks waited for one another for {timeout:g} s; {_others(waiting)}."
        return waiting[0], sentence
    missing = next((o for o in absent if o.status != "ok"), absent[0])
    call = waiting[0].where
    assert call is not None
    if call.call == "new_group" and missing.status == "ok":  # any of them may have left one out
        return waiting[0], (
            f"{_capital(_others(waiting))} after {timeout:g} s; {_others(absent)}. "
            "They did not all make the same groups in the same order."
        )
    what = call.call + (f" of {call.what}" if call.what else "")
    return missing, (
        f"{_capital(missing.who)} did not join {what} {limit}: {_others(waiting)}; "
        f"{_others(absent)}."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _others(outcomes: list[Outcome]) -> str:
    """Join "rank 0 was …; ranks 2 and 3 were …"; ranks that did the same share a part."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(doing(outcome), []).append(outcome)
    parts = []
    for text, same in groups.items():
        if len(same) == 1:
            parts.append(f"{same[0].who} {text}")
        else:
            ranks = [outcome.rank for outcome in same]
            names = ", ".join(map(str, ranks[:-1])) + f" and {ranks[-1]}"
            parts.append(f"ranks {names} {re.sub('^was ', 'were ', text)}")
    return "; ".join(parts)
