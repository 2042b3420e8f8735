"""What one rank of a pipeline holds and sends: tensors of its stages, activations, messages.

Symbols: N ranks of the pipeline, M micro-batches in a step, b samples in each, s sequence, h width.
Every stage has as many layers; the first also has the embeddings, the last the final norm and, as
the output layer, a copy of the token embedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dtlib.config import pipelines
from dtlib.errors import BadInput
from dtlib.sim import activations, flops, shapes, tensors, traffic
from dtlib.sim.setup import Setup

COUNTED = ("gpipe", "1f1b", "interleaved")  # schedules that do not split the backward
Shapes = Sequence[tuple[str, tuple[int, ...]]]


class Place(NamedTuple):
    """A rank of a pipeline.

    Attributes
    ----------
    rank, ranks, schedule, micro_batches
        The rank's place, N, the schedule's name, M.
    layers
        Of the whole model.
    chunks
        Stages on each rank.
    """

    rank: int
    ranks: int
    schedule: str
    micro_batches: int
    layers: int
    chunks: int

    def __str__(self) -> str:
        own = ", ".join(map(str, self.stages))
        return f"of rank {self.rank}, which has stage {own} of {self.total}"

    @property
    def stages(self) -> list[int]:
        """The numbers of this rank's stages."""
        return pipelines.stages_of(self.rank, self.ranks, self.schedule, self.chunks)

    @property
    def total(self) -> int:
        """The number of stages on all ranks."""
        return self.ranks * self.chunks

    @property
    def is_first(self) -> bool:
        """Whether this rank embeds tokens."""
        return 0 in self.stages

    @property
    def is_last(self) -> bool:
        """Whether this rank has the output layer."""
        return self.total - 1 in self.stages


def order(where: Place) -> list[tuple[bool, int]]:
    """Return the rank's computations in order: whether it is a forward, and of which stage.

    D. Narayanan et al., arXiv:2104.04473, section 2.2; torch's rounds have about N micro-batches.

    Raises `BadInput` for a schedule that splits the backward: what autograd frees between its
    halves follows from no formula.
    """
    if where.schedule not in COUNTED:
        raise BadInput(
            f"sim has no formula for what a stage keeps under the schedule {where.schedule}; it"
            f" predicts {', '.join(COUNTED)}."
        )
    many, own = where.micro_batches, where.stages
    if where.schedule == "gpipe":
        return [(True, own[0])] * many + [(False, own[0])] * many
    group = many // max(1, many // where.ranks)
    turns = [k // group % where.chunks for k in range(many * where.chunks)]
    forwards = [(True, own[turn]) for turn in turns]
    backwards = [(False, own[where.chunks - 1 - turn]) for turn in turns]
    ahead = where.ranks - 1 - where.rank
    warm_up = ahead if where.chunks == 1 else 2 * ahead + (where.chunks - 1) * group
    pairs = zip(forwards[warm_up:], backwards, strict=False)
    left = backwards[max(0, len(forwards) - warm_up) :]
    return [*forwards[:warm_up], *(line for pair in pairs for line in pair), *left]


def place(model: str, ranks: int, schedule: str, micro_batches: int, rank: int = 0) -> Place:
    """Return a rank's place in the pipeline of a GPT.

    Raises `BadInput` when its layers or micro-batches do not fit the schedule.
    """
    layers = shapes.GPT[model]["layers"]
    chunks = pipelines.chunks(schedule, layers, ranks)
    pipelines.refuse_micro_batches(schedule, ranks, micro_batches)
    return Place(rank, ranks, schedule, micro_batches, layers, chunks)


def places(setup: Setup) -> list[Place]:
    """Return the places of all ranks of the pipeline; raises `BadInput` like `place`."""
    ranks = setup.axes.pipeline
    size = setup.model, ranks, setup.pipeline_schedule, setup.accumulation
    return [place(*size, rank) for rank in range(ranks)]


def held(everything: Shapes, where: Place) -> list[tuple[str, tuple[int, ...]]]:
    """Return those of a GPT's parameters that the rank holds."""
    each = where.layers // where.total
    own = {s * each + k for s in where.stages for k in range(each)}
    outside = {"wte": where.is_first or where.is_last, "wpe": where.is_first, "ln_f": where.is_last}
    return [
        (name, sizes)
        for name, sizes in everything
        if (int(name.split(".")[1]) in own if name[:2] == "h." else outside[name.split(".")[0]])
    ]


def kept(where: Place, size: Mapping[int, int]) -> int:
    """Return the most bytes that the rank keeps at once.

    `size` is what one micro-batch keeps in each stage of the rank, from forward to backward.
    """
    now = most = 0
    for is_forward, stage in order(where):
        now += size[stage] if is_forward else -size[stage]
        most = max(most, now)
    return most


def activations_by_stage(where: Place, setup: Setup) -> dict[int, int]:
    """Return what one micro-batch keeps in each stage of the rank, its logits included."""
    shape = shapes.GPT[setup.model]
    size = setup.sequence, setup.micro_batch, shape["width"], shape["heads"], setup.recipe
    block = activations.gpt_block(*size, setup.attention, setup.dropout)
    stream, compute = activations.STREAM[setup.recipe]
    positions = setup.sequence * setup.micro_batch
    found = {}
    for stage in where.stages:
        kept = where.layers // where.total * (block + _copies(tensors.gpt_block(size[2]), setup))
        if stage == 0:
            kept += 8 * setup.sequence * (setup.micro_batch + 1)  # int64: tokens, positions
            kept += positions * size[2] * setup.dropout
        if stage == where.total - 1:
            kept += positions * size[2] * (stream + compute)
            kept += activations.statistics(*size[:2], stream) + setup.loss_bytes()[0]
            output = [("wte", (setup.vocab_size, size[2]))]
            kept += 0 if setup.is_chunked else _copies(output, setup)
        found[stage] = kept
    return found


def _copies(matrices: Shapes, setup: Setup) -> int:
    """Bytes of the 16-bit copies that autocast makes of matrices in each forward of a stage."""
    sizes = [tensors.elements(sizes) for _, sizes in matrices if len(sizes) > 1]
    return 2 * sum(sizes) * (setup.recipe == "autocast")


def one_message(setup: Setup) -> int:
    """Return the bytes of what passes between two stages for one micro-batch, either way."""
    stream, _ = activations.STREAM[setup.recipe]
    return setup.micro_batch * setup.sequence * shapes.GPT[setup.model]["width"] * stream


def buffers(where: Place, setup: Setup) -> int:
    """Return the bytes that torch keeps to receive messages: one for each micro-batch of a stage.

    Stages that lie on one rank have theirs too.
    """
    activations_in = sum(stage > 0 for stage in where.stages)
    gradients_in = sum(stage < where.total - 1 for stage in where.stages)
    return (activations_in + gradients_in) * where.micro_batches * one_message(setup)


def sent(where: Place, setup: Setup, parameters: int) -> list[dict]:
    """Return what the rank sends in a step, a row for each kind, as `traffic` has them.

    `parameters` are the rank's own.
    """
    size = one_message(setup)
    kinds = ("activations", "their gradients")
    rows = [
        traffic.copy("send", carries, size, times)
        for carries, times in zip(kinds, messages(where), strict=True)
    ]
    gradient, width = traffic.TRAVELS[setup.recipe][1], shapes.GPT[setup.model]["width"]
    rows += traffic.data_parallel(parameters, setup.ranks // where.ranks, gradient)
    if where.is_first != where.is_last:
        table = setup.vocab_size * width
        rows.append(traffic.collective("all_reduce", "tied embedding", table, 2, gradient))
    return [row for row in rows if row["wire"]]


def flop(where: Place, setup: Setup) -> tuple[int, int]:
    """Return the FLOP of the rank's step: its layers, and in the last stage the logits."""
    samples, shape = setup.micro_batch * where.micro_batches, shapes.GPT[setup.model]
    layers = where.layers // where.total * len(where.stages)
    vocab_size = setup.vocab_size * where.is_last
    tokens = samples * setup.sequence
    return flops.gpt_step(tokens, setup.sequence, layers, shape["width"], vocab_size)


def messages(where: Place) -> tuple[int, int]:
    """Return how many activations and how many gradients the rank sends in a step.

    Stages that lie on one rank send each other nothing.
    """
    rank_of = {
        stage: rank
        for rank in range(where.ranks)
        for stage in pipelines.stages_of(rank, where.ranks, where.schedule, where.chunks)
    }
    forward = sum(rank_of.get(s + 1, where.rank) != where.rank for s in where.stages)
    backward = sum(rank_of.get(s - 1, where.rank) != where.rank for s in where.stages)
    return forward * where.micro_batches, backward * where.micro_batches
