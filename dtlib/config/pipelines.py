"""The schedules of a pipeline by name: where stages lie, and how many micro-batches they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtlib.config.mesh import Mesh
from dtlib.errors import BadInput, counted

# Name to torch's class in torch.distributed.pipelining.schedules.
SCHEDULES = {
    "gpipe": "ScheduleGPipe",
    "1f1b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero-bubble": "ScheduleInterleavedZeroBubble",
    "zbv": "ScheduleZBVZeroBubble",
    "dualpipe-v": "ScheduleDualPipeV",
}
FOLDED = ("zbv", "dualpipe-v")  # each rank has a stage of either half: the V in their names
IN_ROUNDS = ("interleaved", "zero-bubble")  # take micro-batches in rounds of about N


def chunks(schedule: str, layers: int, ranks: int) -> int:
    """Return the number of stages on each rank, so that every stage has as many layers.

    That is 1, or 2 for a folded schedule, or for `interleaved` the fewest above 1 that divide a
    rank's layers.

    Raises `BadInput` when the layers cannot be divided; the message has the numbers.
    """
    own, rest = divmod(layers, ranks)
    if rest or not own:
        some = ", ".join(str(n) for n in range(2, layers + 1) if layers % n == 0)
        raise BadInput(
            f"{counted(layers, 'layer')} cannot be divided evenly among {ranks} pipeline stages;"
            f" use a pipeline of {some} ranks."
        )
    if schedule not in (*FOLDED, "interleaved"):
        return 1
    several = range(2, 3 if schedule in FOLDED else own + 1)
    found = [many for many in several if own % many == 0]
    if not found:
        raise BadInput(
            f"schedule {schedule} needs at least 2 stages on each rank, and {layers} layers on"
            f" {counted(ranks, 'rank')} are {own} for each; use --pipeline-schedule 1f1b, or a"
            " shorter pipeline."
        )
    return found[0]


def stages_of(rank: int, ranks: int, schedule: str, many: int) -> list[int]:
    """Return the stages on a rank of the pipeline, `many` of them, from first to last.

    Stage s is on rank s mod N; under a folded schedule rank r has stages r and 2N - 1 - r.
    """
    if schedule in FOLDED:
        return [rank, 2 * ranks - 1 - rank]
    return [rank + ranks * chunk for chunk in range(many)]


def default_micro_batches(settings: Mapping[str, Any], mesh: Mesh) -> int:
    """Return how many micro-batches a step has unless the run says it: enough to fill the stages.

    It is 1 for any strategy but `pipeline`.
    """
    if settings["strategy"] != "pipeline":
        return 1
    return mesh.pipeline * (2 if settings["pipeline_schedule"] == "dualpipe-v" else 1)


def refuse_micro_batches(schedule: str, ranks: int, accumulation: int) -> None:
    """Refuse a number of micro-batches that a schedule cannot arrange.

    Raises `BadInput` with the numbers and a number that it can.
    """
    wanted = f"schedule {schedule} on a pipeline of {counted(ranks, 'rank')} needs"
    least = {"1f1b": ranks, "dualpipe-v": 2 * ranks}.get(schedule, 1)
    if accumulation < least:
        raise BadInput(
            f"{wanted} at least {least} micro-batches in a step, and accumulation is"
            f" {accumulation}; use --accumulation {least}"
            f"{', or --pipeline-schedule gpipe' if schedule != 'gpipe' else ''}."
        )
    rounds = max(1, accumulation // ranks)
    if schedule in IN_ROUNDS and accumulation % rounds:
        below = accumulation // ranks * ranks
        raise BadInput(
            f"{wanted} a number of micro-batches that {rounds} rounds share evenly, and"
            f" accumulation is {accumulation}; use {below} or {below + ranks}."
        )
