"""Compare measurements with the formulas, and name every difference.

The formulas are those of the papers (`dtlib.sim.memory`, kept="paper"). What frameworks do besides
is named here, computed from the model's shapes and the framework's settings and never from the
remainder: what no name explains is reported as unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlib.config.values import HF
from dtlib.sim import activations, memory, shapes, states
from dtlib.sim.estimate import along_tensor, estimate
from dtlib.study import pipeline, shards
from dtlib.study.facts import Facts
from dtlib.study.lines import COUNT, Difference, Line

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "send")


def compare(facts: Facts) -> list[Line]:
    """Return a line for each kind of state, for activations and for each collective.

    There are none if `sim` has no formula for the strategy, or if the model is one of transformers,
    whose tensors' sizes the records of a run don't hold: nothing is guessed.
    """
    if not memory.knows(facts.strategy) or facts.model.startswith(HF):
        return []
    if facts.strategy == "pipeline":
        return pipeline.compare(facts)
    return [*_held(facts), *_activations(facts), *_sent(facts)]


def _line(what: str, predicted: int, measured: int, found: Iterator[Difference]) -> Line:
    return Line(what, predicted, measured, tuple(d for d in found if d.size))


def _held(facts: Facts) -> Iterator[Line]:
    settings = {"optimizer": facts.optimizer, "place": "all"}
    if facts.strategy == "offload":
        settings["zero_stage"] = facts.stage
    if facts.strategy == "fsdp":
        settings["shard_ranks"] = facts.shard_ranks
    asked = (facts.part, facts.data_ranks, facts.strategy, facts.precision)
    paper = memory.model_states(*asked, kept="paper", **settings)
    real = memory.model_states(*asked, kept="framework", **settings)
    for kind in states_of(facts):
        moment = facts.page.before_update if kind == "gradients" else facts.page.between_steps
        found = _beside(facts, kind, getattr(paper, kind), getattr(real, kind))
        yield _line(kind, getattr(paper, kind), moment[kind], found)
    yield _line("padding", 0, facts.page.before_update["padding"], _padding(facts))


def states_of(facts: Facts) -> tuple[str, ...]:
    """Return the kinds of states that are compared; infinity's are in files, so it has none."""
    return () if facts.strategy == "infinity" else memory.States._fields


def _beside(facts: Facts, kind: str, paper: int, real: int) -> Iterator[Difference]:
    """Name what a framework holds of one kind of state in addition to the formula."""
    weight, gradient, _, moment = facts.recipe
    shard, cut = shards.shard(facts)
    even = states.share(facts.part, facts.shards)
    if kind == "fp32_copy" and real > paper:
        yield Difference(real - paper, "fp32 copy: DeepSpeed updates a copy of the rank's shard")
    if kind == "gradients" and real > paper:
        yield Difference(real - paper, "fp32: offloaded gradients wait on the host in fp32")
    if kind in _sharded(facts):
        size = {"optimizer": moment * states.MOMENTS[facts.optimizer], "parameters": weight}
        per_element = size.get(kind, 4 if kind == "fp32_copy" else gradient)
        used = not (kind == "fp32_copy" and not real)
        yield Difference((shard - even) * per_element * used, cut)
    if kind == "gradients" and facts.stage == 1:
        yield Difference(
            (shard - facts.parameters) * gradient,
            "reduced in backward: gradients of other ranks' shards are dropped before the update",
        )
    if facts.stage == 3 and kind == "parameters":
        yield Difference(shards.persistent(facts) * weight, "persistent parameters stay whole")
    if facts.stage == 3 and kind == "gradients":
        yield Difference(facts.zero["reduce_bucket_size"] * gradient, "reduction bucket")


def _sharded(facts: Facts) -> tuple[str, ...]:
    """Return the kinds of state of which a rank holds only its shard."""
    if facts.stage == 3 or facts.strategy in ("fsdp", "tensor"):
        return memory.States._fields
    return {1: ("optimizer", "fp32_copy"), 2: ("gradients", "optimizer", "fp32_copy")}.get(
        facts.stage, ()
    )


def _padding(facts: Facts) -> Iterator[Difference]:
    if facts.stage in (1, 2) and facts.strategy != "offload":  # that one copies it to the host
        beyond = shards.straddling(facts) * facts.recipe[1]
        yield Difference(beyond, "tensors on the border of two shards, reduced whole")
    if facts.stage in (1, 2):
        beyond = shards.padded(facts) - facts.parameters
        yield Difference(beyond * facts.recipe[0], "padding of flat groups")
    if facts.strategy == "fsdp":
        rest = shards.padded(facts) // facts.mesh.data - shards.shard(facts)[0]
        both = facts.recipe[0] + facts.recipe[1]
        yield Difference(rest * both, "padding of shards with fewer rows, weights and gradients")


def _activations(facts: Facts) -> Iterator[Line]:
    setup = facts.setup()
    if setup is None or setup.checkpointing == "selective":  # it doesn't show what it keeps
        return
    rows = {row.kind: row.size for row in estimate(setup).rows}
    kept = rows["activations"] + setup.loss_bytes()[0]
    measured = facts.page.most["activations"]
    copies = rows.get("weight copies", 0)
    if setup.is_chunked and copies:  # the output layer's copy is not kept
        copies -= 2 * setup.vocab_size * shapes.GPT[setup.model]["width"]
    labels = not setup.is_chunked
    yield _line("activations", kept, measured, _saved_too(facts, setup.recipe, copies, labels))


def _saved_too(facts: Facts, recipe: str, copies: int, labels: bool) -> Iterator[Difference]:
    """Name what autograd saves in addition to the activations that the formula counts."""
    positions = facts.micro_batch
    yield Difference(copies, "16-bit copies of the weights, which autocast makes")
    if facts.task == "text":
        shape = shapes.GPT[facts.model]
        positions *= facts.max_length or shape["context"]
        if facts.page.device == "cpu" and recipe in ("mixed", "policy"):
            # the mean and deviation are 2 bytes smaller, for each position of each layer norm
            less = 2 * 2 * positions * (2 * shape["layers"] + 1)
            yield Difference(-less, "statistics of layer norms, in 16 bits on a CPU")
        if facts.mesh.tensor > 1:
            words = facts.own[0][1][0] - states.share(facts.tensors[0][1][0], facts.mesh.tensor)
            size = words * positions * max(activations.STREAM[recipe][1], 4)
            yield Difference(size, "logits of a rank with fewer words")
    yield Difference(8 * positions * labels, "labels, which the loss looks up")
    yield Difference(12, "scalars of the loss: its count and its scale")


def _sent(facts: Facts) -> Iterator[Line]:
    rows = memory.communication(
        facts.part, facts.data_ranks, facts.strategy, facts.accumulation, facts.precision,
        optimizer=facts.optimizer, shard_ranks=facts.shard_ranks,
        zero_stage=facts.stage if facts.strategy == "offload" else None,
        compress_gradients=bool(facts.compress_gradients), kept="paper",
    )  # fmt: skip
    if setup := facts.setup():
        rows += [memory.Traffic(**row) for row in along_tensor(setup)]
    paper = {name: row.payload for name, row in memory.by_collective(rows).items()}
    for name in COLLECTIVES:
        tally = facts.page.collectives.get(name)
        predicted, measured = paper.get(name, 0), tally.payload if tally else 0
        if predicted or measured:
            yield _line(name, predicted, measured, _traffic(facts, name, predicted))


def _traffic(facts: Facts, name: str, paper: int) -> Iterator[Difference]:
    weight, times = facts.recipe[0], facts.accumulation
    if name == "all_reduce":
        yield Difference(COUNT, "the loop's own: the number of samples that count")
        if facts.stage in (1, 2):
            yield Difference(4 * len(facts.groups), "norms of the gradients, one for each group")
        if facts.stage == 3:
            size = 4 if facts.strategy in ("offload", "infinity") else 8  # fp32 there, else fp64
            why = "norms of the gradients, one for each sub-group"
            yield Difference(size * shards.sub_groups(facts), why)
        if facts.strategy == "tensor" and facts.mesh.data > 1:
            own, why = shards.shard(facts)
            yield Difference((own - facts.part) * facts.recipe[1], why)
        if facts.strategy == "fsdp" and facts.mesh.replicate > 1:
            rows = shards.padded(facts) // facts.shards - states.share(facts.part, facts.shards)
            yield Difference(rows * facts.recipe[1], shards.shard(facts)[1])
        if facts.strategy in ("fsdp", "tensor") and facts.clip:
            yield Difference(4 + 4 * (facts.mesh.tensor > 1), "clip: the square of the norm")
    if facts.stage in (1, 2) and name in ("all_reduce", "reduce_scatter"):
        sent = facts.parameters * weight * (times if facts.stage == 2 else 1)
        why = "DeepSpeed all-reduces by default where the paper reduce-scatters"
        yield Difference(sent if name == "all_reduce" else -sent, why)
    if facts.ranks == 1:
        yield from _alone(facts, name)
        return
    extra = (shards.padded(facts) - facts.part) * weight
    if name == "all_gather" and facts.stage in (1, 2):
        yield Difference(extra, shards.shard(facts)[1])
    if name == "all_gather" and (facts.stage == 3 or facts.strategy == "fsdp"):
        again = facts.page.gathered - paper
        yield Difference(again, "weights that were still whole when they were needed again")
    if name == "all_gather" and facts.strategy == "fsdp":
        root = shards.padded(facts, root=True) - shards.padded(facts, root=True, ranks=1)
        rows = shards.padded(facts) - shards.padded(facts, ranks=1)
        yield Difference((2 * rows - root) * weight * times, shards.shard(facts)[1])
    if name == "reduce_scatter" and (facts.stage == 3 or facts.strategy == "fsdp"):
        reductions = times if facts.stage == 3 else 1  # dtlib lets FSDP reduce once a step
        yield Difference(extra * reductions, shards.shard(facts)[1])


def _alone(facts: Facts, name: str) -> Iterator[Difference]:
    """Name the collectives that a single rank calls although there is no other rank."""
    weight, gradient, _, _ = facts.recipe
    why = "a world of one: the framework calls it, but nothing is sent"
    if facts.strategy in ("accelerate", "lightning") and name == "all_reduce":
        yield Difference(facts.parameters * gradient, why)
    if (facts.stage == 3 or facts.strategy == "fsdp") and name == "all_gather":
        yield Difference(facts.page.gathered, why)
    if (facts.stage == 3 or facts.strategy == "fsdp") and name == "reduce_scatter":
        yield Difference(facts.parameters * weight * facts.accumulation, why)
