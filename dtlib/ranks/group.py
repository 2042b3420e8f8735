"""One launch, as the parent sees it: start the ranks, listen to all of them, end them."""

from __future__ import annotations

import codecs
import os
import selectors
import time
from dataclasses import dataclass, field
from typing import Any

from dtlib.ranks import parcel
from dtlib.ranks.environment import start_limit
from dtlib.ranks.outcome import Outcome, crash_in_words, judge_text
from dtlib.ranks.pool import Process
from dtlib.ranks.show import View
from dtlib.ranks.where import Where

TICK = 0.1  # seconds between looks at the clock and at processes that died silently
SETTLE = 0.15  # seconds for the other ranks to arrive where they will wait
GRACE = 3.0  # seconds for their answers, and for the reports of ranks that are about to end
STOP_GRACE = 10.0  # seconds in which a function must ask whether to stop
# Limits for one rank: an endless print must not fill the parent's memory.
MOST_LINES, LONGEST_LINE = 20_000, 10_000
_NOISE = "ProcessGroupGloo.cpp"  # gloo's own log lines; the error says it better


@dataclass
class Rank:
    """What the parent knows about one rank."""

    number: int
    process: Process
    joined: bool = False
    outcome: Outcome | None = None
    where: Where | None = None
    hung_up: bool = False
    lines: list[str] = field(default_factory=list)
    rest: str = ""
    decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def send(self, kind: str, **content: Any) -> None:
        try:
            self.process.connection.send((kind, content))
        except OSError:
            self.hung_up = True


class Group:
    """The ranks of one launch.

    Parameters
    ----------
    processes
        One waiting process for each rank.
    jobs
        What each rank is to do.
    timeout
        Seconds that the others may still take after the first rank has returned.
    limit
        Seconds that the launch may take once the ranks have met; `None`: no limit.
    """

    def __init__(
        self,
        processes: list[Process],
        jobs: list[dict[str, Any]],
        view: View,
        timeout: float,
        limit: float | None,
    ) -> None:
        self.ranks = [Rank(number, process) for number, process in enumerate(processes)]
        self.jobs, self.view, self.timeout, self.limit = jobs, view, timeout, limit
        self.patience = max(start_limit(), timeout)  # the seconds until the deadline
        self.deadline = time.monotonic() + self.patience
        self.failing = self.out_of_time = False
        self.stop_requested = False
        self._heeded = False
        self._stop_by = self._next_stop = 0.0
        self._port: int | None = None
        self._ready = 0
        self.selector = selectors.DefaultSelector()

    def run(self) -> list[Outcome]:
        """Start the function on every rank, wait, end every process, and return the outcomes."""
        try:
            for rank, job in zip(self.ranks, self.jobs, strict=True):
                self.selector.register(rank.process.connection, selectors.EVENT_READ, (rank, True))
                self.selector.register(rank.process.output, selectors.EVENT_READ, (rank, False))
                rank.send("job", **job)
            while self._unfinished() and time.monotonic() < self.deadline:
                self._listen(TICK)
                self._pass_on_stop()
            if self._unfinished():
                self.out_of_time = not self.failing
                self._ask()
            for rank in self.ranks:
                if rank.outcome is None:
                    rank.process.kill()
            return self._outcomes()
        except KeyboardInterrupt:
            self._ask()
            raise
        finally:
            self.end()

    @property
    def places(self) -> dict[int, str]:
        """Where the ranks that had not ended were, as far as they answered."""
        running = [rank for rank in self.ranks if rank.outcome is None]
        return {rank.number: str(rank.where or "not answering") for rank in running}

    def _unfinished(self) -> list[Rank]:
        def answered(rank: Rank) -> bool:
            return self.failing and rank.where is not None and not rank.where.left

        return [rank for rank in self.ranks if rank.outcome is None and not answered(rank)]

    def _ask(self) -> None:
        """Ask the ranks that still run where they are, and wait a moment for the answers."""
        self.failing = True
        for rank in self.ranks:
            if rank.outcome is None:
                rank.send("where")
        end = time.monotonic() + GRACE
        while self._unfinished() and time.monotonic() < end:
            self._listen(TICK)

    def _listen(self, seconds: float) -> None:
        for key, _ in self.selector.select(seconds):
            rank, is_line = key.data
            if is_line:
                self._take_message(rank)
            else:
                self._take_output(rank)
        for rank in self.ranks:
            if rank.outcome is None and (rank.hung_up or rank.process.exit_code() is not None):
                self._died(rank)

    def _take_message(self, rank: Rank) -> None:
        try:
            kind, content = rank.process.connection.recv()
        except (EOFError, OSError):
            rank.hung_up = True
            self.selector.unregister(rank.process.connection)
            return
        if kind == "hello":
            rank.process.pid = content["pid"]
        elif kind == "ready":
            self._meet(content["port"])
        elif kind == "joined":
            rank.joined = True
            if all(r.joined for r in self.ranks):
                self._all_joined()
        elif kind == "where":
            rank.where = content["where"]
        elif kind == "stopping":
            self._heeded = self._heeded or content["heeded"]
        elif kind == "progress":
            self.view.progress(content["done"], content["total"], content["numbers"])
        elif kind == "done":
            self._done(rank, content)

    def _meet(self, port: int | None) -> None:
        self._ready += 1
        self._port = port or self._port
        if self._ready == len(self.ranks):
            for rank in self.ranks:
                rank.send("go", port=self._port)

    def _all_joined(self) -> None:
        for rank in self.ranks:
            rank.send("go", port=self._port)
        if not self.failing:
            self.deadline = float("inf")
            if self.limit:
                self._shorten(self.limit)

    def _shorten(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        if end < self.deadline:
            self.deadline, self.patience = end, seconds

    def _done(self, rank: Rank, content: dict[str, Any]) -> None:
        value = content.pop("value", None)
        outcome = Outcome(rank.number, at=time.monotonic(), **content)
        if value is not None:
            outcome.value = parcel.unpack_result(value, rank.number)
        judge_text(outcome)
        self._settle(rank, outcome)

    def _died(self, rank: Rank) -> None:
        """A rank that is gone without a report: a signal, `os._exit`, or a crash."""
        while self._take_output(rank):
            pass
        code = rank.process.code_of_death()
        code = -9 if code is None else code
        status = "killed" if code < 0 else "exit"
        last = "\n".join(rank.lines[-5:]) if code in (-6, -11) else ""
        why = crash_in_words(code, self.jobs[rank.number].get("debug", False))
        self._settle(rank, Outcome(rank.number, status, code=code, remark=why, traceback=last,
                                   at=time.monotonic()))  # fmt: skip

    def _settle(self, rank: Rank, outcome: Outcome) -> None:
        rank.outcome = outcome
        if outcome.status == "ok":
            self._shorten(self.timeout)
        elif not self.failing:
            self.failing = True
            self.patience = self.timeout  # if it failed by a time-out, then by a collective's
            self.deadline = time.monotonic() + SETTLE

    def _pass_on_stop(self) -> None:
        """Pass on a request to stop until a rank asks for it; end the ranks if none ever does."""
        now = time.monotonic()
        if not self.stop_requested or self._heeded or now < self._next_stop:
            return
        self._stop_by = self._stop_by or now + STOP_GRACE
        if now > self._stop_by:
            raise KeyboardInterrupt
        self._next_stop = now + 1.0
        for rank in self.ranks:
            rank.send("stop")

    def _take_output(self, rank: Rank) -> bool:
        """Read the output so far, and return whether there may be more."""
        try:
            data = os.read(rank.process.output, 1 << 16)
        except BlockingIOError:
            return False
        if not data:
            if rank.process.output in self.selector.get_map():
                self.selector.unregister(rank.process.output)
            return False
        *lines, rank.rest = (rank.rest + rank.decoder.decode(data)).split("\n")
        if len(rank.rest) > LONGEST_LINE:
            lines, rank.rest = [*lines, rank.rest], ""
        for line in lines:
            self._show(rank, line)
        return True

    def _show(self, rank: Rank, line: str) -> None:
        if _NOISE in line or len(rank.lines) > MOST_LINES:
            return
        if len(rank.lines) == MOST_LINES:
            line = f"(more than {MOST_LINES} lines: the rest is not kept)"
        rank.lines.append(line)
        self.view.line(rank.number, line)

    def _outcomes(self) -> list[Outcome]:
        """Return how each rank ended.

        When a collective times out, gloo's first time-out closes the connections of the other
        waiting ranks: whether a rank saw that or its own time-out is chance, and means the same.
        """
        ended = [rank.outcome for rank in self.ranks if rank.outcome]
        by_time = self.out_of_time or any(o.status == "timeout" for o in ended)
        by_time = by_time and all(o.status in ("ok", "timeout") or o.peer_gone for o in ended)
        for outcome in ended:
            outcome.status = "timeout" if by_time and outcome.peer_gone else outcome.status
        return [self._outcome(rank, "timeout" if by_time else "stopped") for rank in self.ranks]

    def _outcome(self, rank: Rank, otherwise: str) -> Outcome:
        """Return how a rank ended; its status is `otherwise` if it did not end by itself."""
        while self._take_output(rank):
            pass
        if rank.rest:
            self._show(rank, rank.rest)
            rank.rest = ""
        outcome = rank.outcome
        if outcome is None:
            outcome = rank.outcome = Outcome(rank.number, otherwise, where=rank.where)
            outcome.patience = self.patience
        outcome.host = rank.process.host
        outcome.output = "".join(line + "\n" for line in rank.lines)
        return outcome

    def end(self) -> None:
        """Release the ranks that returned, kill all others, and wait until all are gone."""
        try:
            for rank in self.ranks:
                if rank.outcome and rank.outcome.status == "ok" and not self.failing:
                    rank.send("bye")
                else:
                    rank.process.kill()
            for rank in self.ranks:
                rank.process.wait(2.0)
        finally:  # also when a second interrupt comes while the first is handled
            for rank in self.ranks:
                rank.process.kill()  # also what a rank had started and left behind
            for rank in self.ranks:
                rank.process.wait(2.0)
                rank.process.close()
            self.selector.close()
