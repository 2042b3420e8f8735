"""Lesson 19's pictures and tables: who is whole when, and what is held and sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.drawing import bare, box, canvas, key, ranks, send

from .fsdp_runs import Books, Sizes
from .trace import Event

Table = tuple[list[list[Any]], list[str], str]  # rows, columns, caption: for learn.table(*…)

SHORT = {"gather": "G", "forward": "F", "backward": "B", "reduce": "R"}
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


def draw_question(n: int = 4, blocks: int = 4) -> Any:
    """What is whole on a rank in forward: everything, or one block."""
    figure, several = canvas(
        "Every rank holds a quarter. What else does it hold in the middle of a step?",
        f"Two panels with {n} ranks in rows and {blocks} blocks each. With one call for the whole "
        "model all blocks are whole on every rank while it computes block 2; with a call for each "
        f"block only block 2 is whole, and of the others rank r holds part r of {n}.",
        size=(7, 3.8), rows=2,
    )  # fmt: skip
    for axes, (title, whole) in zip(
        several, (("one call on the model", range(blocks)), ("one call on each block", [2])),
        strict=True,
    ):  # fmt: skip
        ranks(axes, n, blocks * 1.15)
        axes.set_title(title, loc="left")
        for rank in range(n):
            for block in range(blocks):
                part = (0, 1) if block in whole else (rank / n, (rank + 1) / n)
                box(axes, 0.05 + 1.13 * block, rank, 1, "weights", part=part)
    several[-1].set_xlabel("blocks 0 to 3, while block 2 computes")
    return figure


def named(unit: str) -> str:
    """A unit as a picture writes it."""
    return unit.replace("h.", "block ")


def draw_traces(found: Mapping[str, Books]) -> Any:
    """A panel for each way: when each unit is on its way and whole, from the trace of a step."""
    most = {name: most_units(books.events) for name, books in found.items()}
    title = "; ".join(f"{name}: {few_or_all(most[name], found[name])}" for name in found)
    return _traces(title, {name: books.events for name, books in found.items()})


def draw_forward(found: Mapping[str, Books]) -> Any:
    """The same for forward alone."""
    cut = {name: until(books.events, "backward") for name, books in found.items()}
    return _traces("One block ahead, a gather is called before the block before computes", cut)


def few_or_all(most: int, books: Books) -> str:
    """How many units are whole at once, in words."""
    every = len({event.unit for event in books.events})
    return "everything is whole at once" if most == every else f"{most} of {every} units are whole"


def most_units(events: Sequence[Event]) -> int:
    return max(len(event.whole) for event in events)


def until(events: Sequence[Event], kind: str) -> list[Event]:
    """The events before the first of a kind."""
    last = next((i for i, event in enumerate(events) if event.kind == kind), len(events))
    return list(events[:last])


def _traces(title: str, several: Mapping[str, Sequence[Event]]) -> Any:
    names = {way: list(dict.fromkeys(e.unit for e in events)) for way, events in several.items()}
    heights = [0.9 + 0.34 * len(units) for units in names.values()]
    said = " ".join(f"{way}: {words(events)}." for way, events in several.items())
    figure, panels = canvas(
        title,
        "Measured on rank 0. A row for each unit, and events from left to right, not to scale. "
        f"G gather, F forward, B backward, R reduce. {said}",
        size=(7, 0.5 + sum(heights)), rows=len(several), squeeze=False, height_ratios=heights,
    )  # fmt: skip
    for axes, (way, events) in zip(panels[:, 0], several.items(), strict=True):
        units = names[way]
        bare(axes, len(events) + 0.3, len(units))
        axes.set_yticks(range(len(units)), [named(unit) for unit in units])
        axes.tick_params(axis="y", length=0)
        axes.set_title(way, loc="left")
        for row, unit in enumerate(units):
            for kind, start, end in stretches(events, unit):
                box(axes, start, row, end - start, kind)
            for i, event in enumerate(events):
                if event.unit == unit and event.kind in SHORT:
                    axes.text(i + 0.5, row, SHORT[event.kind], ha="center", va="center", fontsize=8)
    panels[-1, 0].set_xlabel("events of one step, in order")
    key(figure, ["communication", "weights"], {"communication": "on its way", "weights": "whole"})
    return figure


def stretches(events: Sequence[Event], unit: str) -> list[tuple[str, int, int]]:
    """Where a unit is on its way ("communication") or whole ("weights"): kind, from, to."""
    states, on_its_way = [], False
    for event in events:
        on_its_way = (on_its_way or (event.kind, event.unit) == ("gather", unit)) and (
            unit not in event.whole
        )
        states.append("weights" if unit in event.whole else "communication" if on_its_way else "")
    found: list[tuple[str, int, int]] = []
    for i, state in enumerate(states):
        if found and state == found[-1][0] and found[-1][2] == i:
            found[-1] = (state, found[-1][1], i + 1)
        elif state:
            found.append((state, i, i + 1))
    return found


def words(events: Sequence[Event]) -> str:
    """The events in short: Groot Froot G0 F0 …"""
    told = [e for e in events if e.kind in SHORT]
    return " ".join(f"{SHORT[e.kind]}{e.unit.replace('h.', '')}" for e in told)


def order(found: Mapping[str, Books], until: str = "end") -> Table:
    """What a picture of traces shows, as a row for each way."""
    rows = []
    for name, books in found.items():
        last = next(i for i, e in enumerate(books.events) if e.kind == until)
        rows.append([name, most_units(books.events[:last]), words(books.events[:last])])
    caption = "A step on rank 0: G gather, F forward, B backward, R reduce; of the root or a block"
    return (rows, ["", "units whole at once", "order"], caption)


def draw_reshard(kept: Mapping[str, Books], sizes: Sizes) -> Any:
    """Bytes a parameter that are whole at most, beside the shards, and those that are sent."""
    size = 4 * sizes.psi
    held = {name: books.whole / size for name, books in kept.items()}
    sent = {name: books.bytes_sent / size for name, books in kept.items()}
    said = "; ".join(f"{name}: whole {held[name]:.2f}, sent {sent[name]:.2f}" for name in kept)
    figure, (left, right) = canvas(
        "The longer blocks stay whole, the fewer bytes are sent",
        f"Two panels of bars, for reshard_after_forward True, 2 and False, as multiples of all "
        f"weights. {said}.",
        size=(7, 2.8), columns=2,
    )  # fmt: skip
    for axes, values, kind in ((left, held, "weights"), (right, sent, "communication")):
        for place, value in enumerate(values.values()):
            box(axes, place - 0.35, value / 2, 0.7, kind, height=value)
            axes.text(place, value, f"{value:.3g}", ha="center", va="bottom")
        axes.set_xticks(range(len(values)), list(values))
        axes.set(xlim=(-0.6, len(values) - 0.4), ylim=(0, 1.15 * max(values.values())))
        axes.set(xlabel="reshard_after_forward", ylabel="× all weights")
    left.set_title("whole at once, at most", loc="left")
    right.set_title("sent by a rank in a step", loc="left")
    right.set_ylabel("")
    return figure


def draw_nodes(found: Mapping[str, Books]) -> Any:
    """A 2 × 2 mesh: all-gathers inside a node, all-reduces between."""
    figure, axes = canvas(
        "HSDP gathers inside a node, and only gradient shards cross",
        "Two nodes side by side with two ranks each. In each node rank 0 or 2 holds the first half "
        "of the weights and rank 1 or 3 the second half; arrows between the two ranks of a node: "
        "all-gather and reduce-scatter. Arrows between ranks with the same half, 0 and 2, 1 and 3: "
        "all-reduce of gradient shards.",
        size=(7, 2.9),
    )  # fmt: skip
    bare(axes, 10, 2.6)
    for node, x in enumerate((0.6, 6.4)):
        axes.text(x + 1.5, -0.42, f"node {node}", ha="center", va="bottom")
        for row in (0, 1):
            part = (row / 2, (row + 1) / 2)
            place = 1.25 * row + 0.2
            box(axes, x, place, 3, "weights", f"rank {2 * node + row}", part=part)
        send(axes, (x + 1.2, 0.55), (x + 1.2, 1.1))
        send(axes, (x + 1.8, 1.1), (x + 1.8, 0.55))
    for row in (0, 1):
        place = 1.25 * row + 0.2
        send(axes, (3.7, place), (6.3, place), "all_reduce")
        send(axes, (6.3, place), (3.7, place))
    key(figure, ["weights", "communication"], {"weights": "shard", "communication": "messages"})
    return figure


def held_and_sent(found: Mapping[str, Books], sizes: Sizes) -> Table:
    """What a rank holds and sends in each way."""
    rows = [
        [name, sum(books.held.values()) / sizes.psi, books.whole, books.gradients,
         books.calls.get("all_gather", 0), books.calls.get("reduce_scatter", 0), books.bytes_sent]
        for name, books in found.items()
    ]  # fmt: skip
    columns = ["", "bytes a parameter", "weights whole, at most", "gradients, at most", "gathers",
               "reductions", "bytes sent"]  # fmt: skip
    caption = f"A rank of {sizes.ranks} in one step; all weights have {4 * sizes.psi:,} bytes;"
    caption += " gradients are those that are whole and the shards of those that were reduced"
    return (rows, columns, caption)


def reshard(found: Mapping[str, Books], sizes: Sizes) -> Table:
    """The numbers of `draw_reshard`, beside the formulas."""
    from . import what_if

    root = sizes.psi - sizes.layers * sizes.block
    rows = []
    for name, books in found.items():
        group = {"True": 0, "False": 1}.get(name) if name in ("True", "False") else int(name)
        shape = (root, sizes.block, sizes.layers)
        rows.append([
            name, books.whole, what_if.whole_weights(*shape, group) * 4,
            books.sent["all_gather"], what_if.gathered(*shape, sizes.ranks, group) * 4,
        ])  # fmt: skip
    columns = ["reshard_after_forward", "whole, at most", "formula", "sent by gathers", "formula"]
    return (rows, columns, "Bytes on a rank, measured and by formulas")


def precision(found: Mapping[str, Books], sizes: Sizes) -> Table:
    """What a policy changes."""
    rows = [
        [name, sum(books.held.values()) / sizes.psi, books.whole, books.sent["all_gather"],
         books.sent["reduce_scatter"]]
        for name, books in found.items()
    ]  # fmt: skip
    columns = ["", "held, bytes a parameter", "weights whole, at most", "sent by gathers",
               "sent by reductions"]  # fmt: skip
    return (rows, columns, f"Bytes on a rank of {sizes.ranks}, in one step")


def distances(found: Mapping[str, Books]) -> Table:
    """How far each way's weights are from those of one process in fp32."""
    rows = [[name, books.losses[-1], f"{books.far:.0e}"] for name, books in found.items()]
    columns = ["", "loss of the last step", "largest distance of a weight"]
    return (rows, columns, "Against one process that trains in fp32, with SGD")


def out_of_a_node(found: Mapping[str, Books], sizes: Sizes) -> dict[str, float]:
    """Bytes that leave a node in a step, for two nodes that share the ranks.

    A ring over all ranks crosses to the other node once, with what one rank sends. Groups that
    have a rank in each node cross once for each rank of the node.
    """
    crossing = {}
    for name, books in found.items():
        between = books.sent.get("all_reduce", 0)
        crossing[name] = between * sizes.ranks / 2 if between else books.bytes_sent
    return crossing


def nodes(found: Mapping[str, Books], sizes: Sizes) -> Table:
    """What is held, and sent inside and out of a node."""
    crossing = out_of_a_node(found, sizes)
    rows = [
        [name, sum(books.held.values()) / sizes.psi,
         *(round(books.sent.get(kind, 0)) for kind in COLLECTIVES), round(crossing[name])]
        for name, books in found.items()
    ]  # fmt: skip
    columns = ["", "held, bytes a parameter", *COLLECTIVES, "out of a node"]
    return (rows, columns, "Bytes that a rank sends in a step on rings, and that leave its node")


def accumulated(each: Mapping[str, Any], once: Mapping[str, Any]) -> Table:
    """Reduced in each micro-batch, and once."""
    rows = [
        [name, books["calls"]["all_gather"], books["calls"]["reduce_scatter"],
         sum(books["sent"].values()), books["waiting"]]
        for name, books in (("in each micro-batch", each), ("once, by your function", once))
    ]  # fmt: skip
    columns = ["reduced", "gathers", "reductions", "bytes sent", "gradients waiting, bytes"]
    return (rows, columns, "A step of four micro-batches on a rank")


def beside(two: Mapping[str, Mapping[str, Any]]) -> Table:
    """Losses and bytes held of FSDP2 and DeepSpeed."""
    rows = [
        [name, *one["losses"], *(size / one["parameters"] for size in one["held"].values())]
        for name, one in two.items()
    ]
    kinds = next(iter(two.values()))["held"]
    steps = [f"loss {k + 1}" for k in range(3)]
    columns = ["", *steps, *(kind.replace("_", " ") for kind in kinds)]
    return (rows, columns, "Losses of three steps, and bytes a parameter on rank 0 of 4, fp32")


def beside_sent(two: Mapping[str, Mapping[str, Any]]) -> Table:
    """Calls and bytes sent of FSDP2 and DeepSpeed."""
    kinds = [kind for kind in COLLECTIVES if any(kind in one["calls"] for one in two.values())]
    rows = [
        [name, *(f"{one['calls'].get(k, 0)} ({one['sent'].get(k, 0):,.0f})" for k in kinds),
         sum(one["sent"].values()) / one["parameters"] / 4]
        for name, one in two.items()
    ]  # fmt: skip
    caption = "Calls in the third step, and bytes that a rank sends for them on a ring"
    return (rows, ["", *kinds, "elements sent ÷ Ψ"], caption)
