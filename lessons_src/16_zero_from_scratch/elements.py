"""How many elements a rank sent, whichever collective or message sent them."""

from __future__ import annotations

from collections.abc import Sequence

from dtlib.learn.wire import Message
from dtlib.sim.collectives import ring_wire_bytes

# Collectives of which a wire log notes the whole tensor, and those of which it notes one shard.
WHOLE = ("all_reduce", "all_gather_into_tensor", "broadcast", "reduce")


def elements_sent(messages: Sequence[Message], n: int) -> float:
    """Elements that a rank sent: messages as they left, a collective as a ring would send it."""
    total = 0.0
    for message in messages:
        if message.kind == "send":
            total += message.elements
        elif message.kind in WHOLE:
            total += ring_wire_bytes(message.kind, message.elements, n)
        elif message.kind != "recv":
            total += (n - 1) * message.elements
    return total
