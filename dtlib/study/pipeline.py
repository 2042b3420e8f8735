"""Compare what a rank of a pipeline held and sent with the formulas of `dtlib.sim.stages`."""

from __future__ import annotations

from collections.abc import Iterator

from dtlib.sim import activations, memory, stages, tensors, traffic
from dtlib.sim.setup import Setup
from dtlib.study.facts import Facts
from dtlib.study.lines import COUNT, Difference, Line

TOKEN = 8  # bytes of an int64


def compare(facts: Facts) -> list[Line]:
    """Return a line for each kind of state, for activations and for each collective.

    There is none for the activations under a schedule that splits the backward.
    """
    setup = facts.setup()
    assert setup is not None  # a GPT, as the strategy takes no other model
    where = stages.places(setup)[facts.place["pipeline"]]
    parameters = tensors.count(stages.held(facts.tensors, where))
    held = memory.model_states(
        parameters, 1, "single", facts.precision, optimizer=facts.optimizer
    )._asdict()
    lines = []
    for kind, size in held.items():
        moment = facts.page.before_update if kind == "gradients" else facts.page.between_steps
        lines.append(Line(kind, size, moment[kind]))
    lines.append(Line("padding", 0, facts.page.before_update["padding"]))
    if where.schedule in stages.COUNTED:
        lines.append(_activations(facts, where, setup))
    return [*lines, *_sent(facts, where, setup, parameters)]


def _activations(facts: Facts, where: stages.Place, setup: Setup) -> Line:
    kept = stages.kept(where, stages.activations_by_stage(where, setup))
    found = [Difference(*each) for each in _saved_too(where, setup)]
    measured = facts.page.most["activations"]
    return Line("activations", kept, measured, tuple(d for d in found if d.size))


def _saved_too(where: stages.Place, setup: Setup) -> Iterator[tuple[int, str]]:
    """Name what autograd saves in addition to the activations that the formula counts."""
    positions, many = setup.micro_batch * setup.sequence, where.micro_batches
    first, last = (stages.kept(where, {s: s == end for s in where.stages})
                   for end in (0, where.total - 1))  # fmt: skip
    if where.is_first:
        tokens = TOKEN * positions * (many - first)
        yield tokens, "tokens of all micro-batches: each is a part of one tensor"
    if where.is_last:
        if not setup.is_chunked:
            yield TOKEN * positions * many, "labels of all micro-batches, which the loss looks up"
        number = max(4, activations.STREAM[setup.recipe][0])
        yield 8 + number * last, "scalars of the loss: its scale, and each micro-batch's weight"


def _sent(facts: Facts, where: stages.Place, setup: Setup, parameters: int) -> Iterator[Line]:
    rows = [memory.Traffic(**row) for row in stages.sent(where, setup, parameters)]
    predicted = {name: row.payload for name, row in memory.by_collective(rows).items()}
    beside = [Difference(COUNT, "the loop's own: the number of samples that count")]
    if facts.clip:
        number = traffic.TRAVELS[setup.recipe][1]
        beside.append(Difference(number, "clip: the square of the norm"))
    for name in ("send", "all_reduce"):
        tally = facts.page.collectives.get(name)
        found = tuple(beside) if name == "all_reduce" else ()
        yield Line(name, predicted.get(name, 0), tally.payload if tally else 0, found)
