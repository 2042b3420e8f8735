"""What a rank holds and sends under every strategy: the formulas, with checked arguments.

The formulas are in `states`, `traffic` and `activations`, as plain functions that also run in the
browser. The functions here take dtlib's names, refuse contradictions, and return named tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dtlib.errors import BadInput, refuse_unknown
from dtlib.sim import states, traffic

PRECISIONS = ("tf32", "bf16", "fp16", *states.RECIPES)
PLACES = ("device", "host", "disk")
KEPT = ("framework", "paper")


class States(NamedTuple):
    """Bytes of the model states on one rank, by kind."""

    parameters: int
    gradients: int
    optimizer: int
    fp32_copy: int

    @property
    def total(self) -> int:
        """Bytes of all four."""
        return sum(self)


class Traffic(NamedTuple):
    """One kind of collective (or copy over the bus) of a rank in one optimizer step, in bytes."""

    collective: str
    carries: str
    payload: int
    wire: float


def model_states(
    parameters: int,
    ranks: int,
    strategy: str,
    precision: str = "fp32",
    *,
    optimizer: str = "adamw",
    zero_stage: int | None = None,
    shard_ranks: int | None = None,
    cpu_offload: bool = False,
    kept: str = "framework",
    place: str = "device",
) -> States:
    """Bytes that one rank holds between backward and step; see `states.model_states`.

    Parameters
    ----------
    parameters, ranks, optimizer, zero_stage, shard_ranks, cpu_offload, kept
        As there: Ψ of the bare model, N, and so on.
    strategy
        A key of `states.DIVIDED`, or one of its `ALIASES`.
    precision
        As in `RunConfig`; or what bf16 and fp16 stand for: "mixed" under DeepSpeed (weights
        themselves in 16 bits, the ZeRO paper's 2+2+12), "policy" under FSDP (fp32 shards, gathered
        in 16 bits), otherwise "autocast" (fp32 weights, temporary 16-bit copies).
    place
        "device", "host", "disk", or "all" for their sum.

    Raises
    ------
    BadInput
        For an unknown name, or numbers that contradict each other.
    """
    strategy = checked(strategy, ranks, precision, zero_stage, shard_ranks, kept)
    refuse_unknown("optimizer", optimizer, states.MOMENTS)
    refuse_unknown("place", place, (*PLACES, "all"))
    more = (zero_stage, shard_ranks, cpu_offload, kept)
    found = states.model_states(parameters, ranks, strategy, precision, optimizer, *more)
    places = PLACES if place == "all" else (place,)
    return States(*(sum(found[p][kind] for p in places) for kind in States._fields))


def communication(
    parameters: int,
    ranks: int,
    strategy: str,
    accumulation: int = 1,
    precision: str = "fp32",
    *,
    optimizer: str = "adamw",
    zero_stage: int | None = None,
    shard_ranks: int | None = None,
    compress_gradients: bool = False,
    root: int = 0,
    kept: str = "framework",
) -> list[Traffic]:
    """Bytes that one rank sends in one optimizer step, a row for each kind of collective.

    Under accumulation data parallelism and stage 1 reduce once a step, stage 2 in each micro-batch;
    stage 3 gathers the weights twice in each micro-batch and reduces there too, FSDP, as dtlib uses
    it, once a step.

    Parameters
    ----------
    parameters, ranks, strategy, precision, optimizer, zero_stage, shard_ranks, kept
        As in `model_states`: on a mesh with a tensor axis a rank's part of the parameters, and the
        ranks along the other axes; `tensor_parallel.traffic` has what is sent along it. With kept
        "framework" stages 1 and 2 all-reduce, as DeepSpeed does by default, and send gradients to
        the host in fp32; with "paper" they reduce-scatter, and send them there in the precision of
        the weights.
    accumulation
        Micro-batches per rank and step.
    compress_gradients
        `ddp` sends gradients in bf16.
    root
        Elements that FSDP leaves whole between forward and backward: those of its root module.

    Returns
    -------
    list of Traffic
        Payload and ring wire bytes; copies to host and disk have the payload as both.
    """
    strategy = checked(strategy, ranks, precision, zero_stage, shard_ranks, kept)
    if accumulation < 1:
        raise BadInput(f"accumulation is {accumulation}; it must be at least 1.")
    if ranks == 1 and strategy not in ("offload", "infinity"):
        return []
    recipe = states.recipe(strategy, precision)
    (weight, gradient), times = traffic.TRAVELS[recipe], accumulation
    stage = zero_stage or states.STAGES.get(strategy)
    rows: list[dict] = []
    if strategy in ("ddp", "accelerate", "lightning", "tensor"):
        rows = traffic.data_parallel(parameters, ranks, 2 if compress_gradients else gradient)
    elif strategy == "fsdp":
        group = shard_ranks or ranks
        rows = traffic.hybrid(parameters, ranks, group, weight, gradient, times, root)
    elif stage == 3:
        rows = traffic.stage_3(parameters, ranks, weight, gradient, times, times)
    else:
        reductions = times if stage == 2 else 1
        rows = traffic.stage_1_or_2(parameters, ranks, weight, reductions, kept)
    if strategy == "offload":
        down = max(weight, 4) if kept == "framework" and stage != 3 else weight
        rows += traffic.offloaded(parameters, ranks, weight, down, times)
    if strategy == "infinity":
        held = states.updated(recipe, optimizer, kept)
        rows += traffic.on_disk(parameters, ranks, weight, held, times)
    return [Traffic(**row) for row in rows if row["wire"]]


def by_collective(rows: Iterable[Traffic]) -> dict[str, Traffic]:
    """Add up rows of the same collective: name to its payload and wire bytes."""
    found: dict[str, Traffic] = {}
    for row in rows:
        before = found.get(row.collective, Traffic(row.collective, "", 0, 0))
        carries = f"{before.carries}, {row.carries}".lstrip(", ")
        found[row.collective] = Traffic(
            row.collective, carries, before.payload + row.payload, before.wire + row.wire
        )
    return found


def knows(strategy: str) -> bool:
    """Tell whether there are formulas for a strategy; a strategy that you add may have none."""
    return states.ALIASES.get(strategy, strategy) in states.DIVIDED


def checked(
    strategy: str, ranks: int, precision: str, zero_stage: int | None, shard_ranks: int | None,
    kept: str,
) -> str:  # fmt: skip
    """Return the strategy's name without alias, after refusing contradictions."""
    strategy = states.ALIASES.get(strategy, strategy)
    refuse_unknown("strategy", strategy, states.DIVIDED)
    refuse_unknown("precision", precision, PRECISIONS)
    refuse_unknown("kept", kept, KEPT)
    if ranks < 1:
        raise BadInput(f"ranks is {ranks}; it must be at least 1.")
    if strategy == "single" and ranks != 1:
        raise BadInput(f"strategy single is one rank, not {ranks}; use strategy ddp.")
    if zero_stage is not None and (strategy != "offload" or zero_stage not in (1, 2, 3)):
        raise BadInput(
            f"zero_stage {zero_stage} does not go with strategy {strategy}; it is 1, 2 or 3 and"
            " belongs to offload."
        )
    if shard_ranks is not None and strategy != "fsdp":
        raise BadInput(f"shard_ranks {shard_ranks} belongs to fsdp; strategy is {strategy}.")
    if shard_ranks is not None and (shard_ranks < 1 or ranks % shard_ranks):
        raise BadInput(f"shard_ranks {shard_ranks} must divide the number of ranks, {ranks}.")
    return strategy
