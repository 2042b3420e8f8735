"""Compare what a rank of a pipeline held and sent with the formulas of `dtlib.sim.stages`."""

from __future__ import annotations

from collections.abc import Iterator

from dtlib.config.mesh import Mesh
from dtlib.sim import memory, shapes, stages, tensors, traffic
from dtlib.sim.setup import Setup
from dtlib.study.facts import Facts
from dtlib.study.lines import COUNT, Difference, Line

TOKEN = 8  # bytes of an int64


def place_of(facts: Facts) -> stages.Place:
    """Return where in its pipeline the rank of a run is."""
    mesh = Mesh.of(facts.mesh) if facts.mesh else Mesh(pipeline=facts.ranks)
    rank = mesh.coordinates(facts.page.rank)["pipeline"]
    return stages.place(
        facts.model, mesh.pipeline, facts.pipeline_schedule, facts.accumulation, rank
    )


def compare(facts: Facts) -> list[Line]:
    """Return a line for each kind of state, for activations and for each collective."""
    where = place_of(facts)
    parameters = tensors.count(stages.held(list(facts.tensors), where))
    held = memory.model_states(
        parameters, 1, "single", facts.precision, optimizer=facts.optimizer
    )._asdict()
    lines = []
    for kind, size in held.items():
        moment = facts.page.before_update if kind == "gradients" else facts.page.between_steps
        lines.append(Line(kind, size, moment[kind]))
    lines.append(Line("padding", 0, facts.page.before_update["padding"]))
    setup = facts.setup()
    if setup is not None and where.schedule in stages.COUNTED:
        lines.append(_activations(facts, where, setup))
    return [*lines, *_sent(facts, where, parameters)]


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
        yield 8 + 4 * last, "scalars of the loss: its scale, and a count for each micro-batch"


def _sent(facts: Facts, where: stages.Place, parameters: int) -> Iterator[Line]:
    setup, width = facts.setup(), shapes.GPT[facts.model]["width"]
    assert setup is not None  # a GPT
    weight, gradient = traffic.TRAVELS[setup.recipe]
    one = setup.micro_batch * setup.sequence * width * weight
    calls = facts.page.collectives
    predicted = sum(stages.messages(where)) * one
    yield Line("send", predicted, calls["send"].payload if "send" in calls else 0)
    data = facts.ranks // where.ranks
    summed = parameters * gradient * (data > 1) + stages.tied(
        where, setup.vocab_size, width, gradient
    )
    found = [Difference(COUNT, "the loop's own: the number of samples that count")]
    if facts.clip:
        found.append(Difference(gradient, "clip: the square of the norm"))
    yield Line("all_reduce", summed, calls["all_reduce"].payload, tuple(found))
