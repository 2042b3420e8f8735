"""The messages of a rank: sent without waiting, awaited with a time-out, counted.

`dist.send` waits until the other rank receives. In 1F1B two neighbours send to each other at the
same moment, and both would wait for ever; so here a send only begins, with `isend`.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence

import torch
import torch.distributed as dist

from dtlib.errors import DtlibError
from dtlib.ranks.outcome import TIMED_OUT
from dtlib.scratch.pipeline.instructions import Lists, Receive, Send, SendActivation
from dtlib.scratch.pipeline.messages import peer, receipts, sent_as


class Links:
    """Messages from and to the other ranks.

    Parameters
    ----------
    lists
        The lists of all ranks, with messages.
    timeout
        Seconds that a message may take.
    group
        The ranks of the lists, by default all there are.

    Attributes
    ----------
    messages, bytes
        How many this rank has sent so far, by kind: `SendActivation`, `SendGradient`, `tied`.
    """

    def __init__(
        self, lists: Lists, timeout: float, group: dist.ProcessGroup | None = None
    ) -> None:
        self.rank, self.ranks = dist.get_rank(group), len(lists)
        self.timeout, self.group = timeout, group
        self.receipts = receipts(lists, self.rank)
        self.on_their_way: dict[Send, tuple[torch.Tensor, dist.Work | None]] = {}
        self.messages: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def send(self, line: Send, x: torch.Tensor) -> None:
        """Begin to send a tensor, and hold it until it has surely arrived."""
        work = self._begin(x.contiguous(), peer(line, self.ranks), _tag(line), type(line).__name__)
        self.on_their_way[line] = work

    def receive(self, line: Receive, into: torch.Tensor) -> torch.Tensor:
        """Wait for a message.

        Raises
        ------
        DtlibError
            When it has not come in time; names the rank and the instruction.
        """
        sent, other = sent_as(line), peer(line, self.ranks)
        work = dist.irecv(into, group=self.group, group_src=other, tag=_tag(sent))
        self._wait(work, f"{line}: {sent} of rank {self._of_world(other)} did not come")
        for mine in self.receipts[line]:
            self._arrived(mine)
        return into

    def finish(self) -> None:
        """Wait until everything has arrived."""
        for line in list(self.on_their_way):
            self._arrived(line)

    def sum_gradients(self, shared: Sequence[tuple[torch.nn.Parameter, list[int]]]) -> None:
        """Sum the gradients of the weights that several ranks use (`shared_weights`)."""
        for p, holders in shared:
            if self.rank in holders:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                self.sum_between(p.grad, holders)

    def sum_between(self, x: torch.Tensor, ranks: Sequence[int]) -> None:
        """Sum `x` over a few ranks, in place: the first adds up, and sends the sum to the others.

        So all of them end with identical bits.
        """
        first, *others = ranks
        sources, targets = (others, others) if self.rank == first else ([first], [first])
        held = []
        if self.rank != first:
            held.append(self._begin(x.clone(), first, 0, "tied"))
        for source in sources:
            part = torch.empty_like(x)
            work = dist.irecv(part, group=self.group, group_src=source, tag=0)
            self._wait(work, f"tied weights: rank {self._of_world(source)}'s part is late")
            x.copy_(x + part if self.rank == first else part)
        if self.rank == first:
            held += [self._begin(x, target, 0, "tied") for target in targets]
        for _, work in held:
            self._wait(work, "tied weights: another rank did not receive")

    def _begin(
        self, x: torch.Tensor, to: int, tag: int, kind: str
    ) -> tuple[torch.Tensor, dist.Work | None]:
        self.messages[kind] += 1
        self.bytes[kind] += x.nbytes
        return x, dist.isend(x, group=self.group, group_dst=to, tag=tag)

    def _arrived(self, line: Send) -> None:
        _, work = self.on_their_way.pop(line)
        self._wait(
            work, f"{line}: rank {self._of_world(peer(line, self.ranks))} did not receive it"
        )

    def _of_world(self, rank: int) -> int:
        """The number that a rank of the group has among all ranks."""
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def _wait(self, work: dist.Work | None, what: str) -> None:
        try:
            if work is not None:
                work.wait(datetime.timedelta(seconds=self.timeout))
        except RuntimeError as error:
            if not TIMED_OUT.search(str(error)):
                raise  # the other rank is gone, and the launcher says why
            raise DtlibError(
                f"rank {dist.get_rank()}, {what} (the limit is {self.timeout:g} s); look at what "
                "the other rank did instead."
            ) from error


def _tag(line: Send) -> int:
    """A number from 1 for each message of a step, so that none is taken for another."""
    return 1 + 2 * (line.stage << 12 | line.micro_batch) + isinstance(line, SendActivation)
