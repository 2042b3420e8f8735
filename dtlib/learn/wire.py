"""A wire log: what every message of a rank carried, whichever of torch's functions sent it.

It wraps the methods of `torch.distributed.ProcessGroup`, which `send`, `isend`,
`batch_isend_irecv`, `all_reduce` and all similar functions call, and the functional collectives of
`torch.ops._c10d_functional`, which DTensor calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from dtlib.learn.functional import noted
from dtlib.learn.wire_names import COALESCED, COLLECTIVES, WHOLE
from dtlib.sim.collectives import ring_wire_bytes

ANY = -1  # the peer of a receive that names no rank
FEW = 64  # messages of up to this many numbers are kept in full


class Forbidden(RuntimeError):
    """A collective was called where only messages between neighbours are allowed."""


@dataclass
class Message:
    """One message, or one collective, as the rank that called it saw it.

    Attributes
    ----------
    kind
        `"send"`, `"recv"`, or the name of the collective.
    peer
        The rank that it went to or came from; `ANY` for a receive from whoever sends first;
        None for a collective.
    elements, bytes
        Its size.
    values
        Its distinct values in order of appearance, when it is small; otherwise its first number.
    state
        The watched tensor's content when a send began.
    address
        Where its memory starts: two sends of one chunk have one address.
    waited, changed, overlaps
        Whether it was waited for; whether a send's tensor changed before that; whether a receive
        wrote into a tensor that was still being sent.
    ranks
        The group in which it was called, by the numbers that its ranks have in the world.
    """

    kind: str
    peer: int | None
    elements: int
    bytes: int
    values: tuple[float, ...]
    state: list[float] | None = None
    address: int = 0
    waited: bool = False
    changed: bool = False
    overlaps: bool = False
    ranks: tuple[int, ...] = ()


class Sender:
    """Something with messages, some of which were sent."""

    messages: list[Message]

    @property
    def sent(self) -> list[Message]:
        """The messages that this rank sent."""
        return [m for m in self.messages if m.kind == "send"]

    @property
    def bytes_sent(self) -> int:
        """Bytes of all messages that this rank sent to others; collectives do not count."""
        return sum(m.bytes for m in self.sent)


def elements_sent(messages: Sequence[Message], n: int) -> float:
    """Elements that a rank sent: messages as they left, a collective as a ring would send it.

    A message that does not name the ranks of its group was sent among `n`.
    """
    total = 0.0
    for message in messages:
        if message.kind == "send":
            total += message.elements
        elif message.kind in WHOLE:
            total += ring_wire_bytes(message.kind, message.elements, len(message.ranks) or n)
        elif message.kind != "recv":
            total += ((len(message.ranks) or n) - 1) * message.elements
    return total


class WireLog(Sender):
    """Record messages while a `with` block runs.

    Parameters
    ----------
    watch
        A tensor whose content is kept with each send.
    forbid_collectives
        Raise `Forbidden` when a collective is called.

    Attributes
    ----------
    messages
        The messages of this rank, in the order of their calls.
    """

    def __init__(self, watch: torch.Tensor | None = None, forbid_collectives: bool = False) -> None:
        self.messages: list[Message] = []
        self._watch = watch
        self._forbid = forbid_collectives
        self._pending: list[_Sending] = []
        self._received: list[_OnItsWay] = []
        self._saved: dict[str, Any] = {}
        self._functional = noted(self._note)

    @property
    def left(self) -> list[Any]:
        """torch's handles of the messages that nobody waited for."""
        all_of_them = (*self._pending, *self._received)
        return [one.work for one in all_of_them if one.on_its_way and one.work is not None]

    def settle(self) -> None:
        """Wait for the messages that nobody waited for, unless the other rank never joins in."""
        with contextlib.suppress(RuntimeError):
            for work in self.left:
                work.wait()

    def __enter__(self) -> WireLog:
        group = dist.ProcessGroup
        wrappers = {"send": self._send, "recv": self._recv, "recv_anysource": self._recv_any}
        wrappers |= {name: self._collective(COLLECTIVES[name]) for name in COLLECTIVES}
        wrappers |= {name: self._collective(*COALESCED[name]) for name in COALESCED}
        for name, wrapper in wrappers.items():
            # vars(), since what getattr returns would no longer bind to a group when put back.
            if name in vars(group):
                self._saved[name] = vars(group)[name]
                setattr(group, name, _wrap(getattr(group, name), wrapper))
        self._functional.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._functional.__exit__(None, None, None)
        for name, original in self._saved.items():
            setattr(dist.ProcessGroup, name, original)
        self._saved.clear()

    def _send(self, original: Callable[..., Any], group: Any, args: tuple, kwargs: dict) -> Any:
        tensor = args[0][0]
        message = _message("send", int(args[1]), tensor, group)
        message.address = tensor.data_ptr()
        if self._watch is not None:
            message.state = self._watch.detach().flatten().tolist()
        self.messages.append(message)
        sending = _Sending(message, None, tensor)
        self._pending.append(sending)
        _refuse_a_stranger(message, group)
        sending.work = original(group, *args, **kwargs)
        return sending

    def _recv(self, original: Callable[..., Any], group: Any, args: tuple, kwargs: dict) -> Any:
        return self._receive(int(args[1]), original, group, args, kwargs)

    def _recv_any(self, original: Callable[..., Any], group: Any, args: tuple, kwargs: dict) -> Any:
        return self._receive(ANY, original, group, args, kwargs)

    def _receive(
        self, peer: int, original: Callable[..., Any], group: Any, args: tuple, kwargs: dict
    ) -> Any:
        tensor = args[0][0]
        message = _message("recv", peer, tensor, group)
        message.values = ()  # nothing has arrived yet
        message.overlaps = any(_overlap(tensor, s.tensor) for s in self._pending if s.on_its_way)
        self.messages.append(message)
        _refuse_a_stranger(message, group)
        self._received.append(_OnItsWay(message, original(group, *args, **kwargs)))
        return self._received[-1]

    def _note(self, kind: str, peer: int | None, tensor: torch.Tensor, group: Any) -> None:
        """A functional call, which waits by itself where its result is first used."""
        self._refuse_collectives(kind if peer is None else "")
        message = _message(kind, peer, tensor, group)
        message.waited = True
        self.messages.append(message)

    def _refuse_collectives(self, name: str) -> None:
        if self._forbid and name:
            raise Forbidden(f"dist.{name} is what you are building here")

    def _collective(self, name: str, several: int | None = None) -> Callable[..., Any]:
        """Log one kind of call; `several` is the place of the tensors that travel as one."""

        def call(original: Callable[..., Any], group: Any, args: tuple, kwargs: dict) -> Any:
            self._refuse_collectives(name)
            tensors = _tensors(args if several is None else args[several])
            if not tensors:
                return original(group, *args, **kwargs)
            whole = tensors[0] if several is None else torch.cat([t.flatten() for t in tensors])
            message = _message(name, None, whole, group)
            options = (*args, *kwargs.values())
            message.waited = not any(getattr(one, "asyncOp", False) for one in options)
            self.messages.append(message)
            work = original(group, *args, **kwargs)
            if message.waited or work is None:
                return work
            self._received.append(_OnItsWay(message, work))
            return self._received[-1]

        return call


def _wrap(original: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    def method(group: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(original, group, args, kwargs)

    return method


class _OnItsWay:
    """A message on its way: torch's own handle, which may be waited for."""

    def __init__(self, message: Message, work: Any) -> None:
        self.message, self.work = message, work

    @property
    def on_its_way(self) -> bool:
        return not self.message.waited

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        self.message.waited = True
        return self.work.wait(*args, **kwargs)

    def get_future(self) -> Any:
        """What torch's coalesced calls return: whether it is waited for is not seen."""
        self.message.waited = True
        return self.work.get_future()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)


class _Sending(_OnItsWay):
    """A send on its way, and what was in the tensor when it started."""

    def __init__(self, message: Message, work: Any, tensor: torch.Tensor) -> None:
        super().__init__(message, work)
        self.tensor, self.before = tensor, tensor.detach().clone()

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        if self.on_its_way:
            self.message.changed = not torch.equal(self.tensor, self.before)
        return super().wait(*args, **kwargs)


def _refuse_a_stranger(message: Message, group: Any) -> None:
    """Refuse a rank that does not exist: gloo reads past the end of its table, and may crash."""
    if message.peer is None or message.peer == ANY:
        return
    if not 0 <= message.peer < group.size():
        raise ValueError(f"rank {message.peer} is not one of these {group.size()} ranks")


def _message(kind: str, peer: int | None, tensor: torch.Tensor, group: Any) -> Message:
    flat = tensor.detach().flatten()
    numbers = flat.tolist() if flat.numel() <= FEW else flat[:1].tolist()
    values = tuple(dict.fromkeys(float(v) for v in numbers))
    size = flat.numel() * flat.element_size()
    ranks = tuple(dist.get_process_group_ranks(group))
    return Message(kind, peer, flat.numel(), size, values, ranks=ranks)


def _tensors(args: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            found.append(arg)
        elif isinstance(arg, (list, tuple)):
            found += _tensors(arg)
    return found


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two contiguous tensors share memory."""
    start_a, start_b = a.data_ptr(), b.data_ptr()
    end_a = start_a + a.numel() * a.element_size()
    end_b = start_b + b.numel() * b.element_size()
    return start_a < end_b and start_b < end_a
