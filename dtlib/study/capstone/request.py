"""A request for node-hours, line by line: formulas of `dtlib.sim` and a measured efficiency."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtlib.errors import BadInput, did_you_mean, refuse_unknown
from dtlib.sim import hardware
from dtlib.sim.estimate import Setup, estimate
from dtlib.sim.node_hours import extrapolated, gpu_hours, node_hours
from dtlib.sim.shapes import GPT
from dtlib.study import scaling

CHOICE, SIM, SHEET, ASSUMED = "your choice", "dtlib.sim", "data sheet", "assumed"
MEASURED, SIMULATED, ARITHMETIC = "measured", "simulated", "arithmetic"
"""Where a line's number comes from."""


@dataclass(frozen=True)
class Request:
    """The training that node-hours are asked for.

    Parameters
    ----------
    model
        A GPT shape of `dtlib.sim`.
    tokens
        Tokens that a run trains on.
    device, precision
        A row of `dtlib.sim.hardware`, and the precision of its peak.
    gpus, gpus_per_node
        GPUs of a run; whole nodes.
    mfu
        Share of the peak that one GPU alone reaches; an assumption until it is measured.
    runs
        How many runs: settings times repeats.
    reserve
        Share for runs that fail.
    study
        "strong" or "weak": whose measured efficiency is taken.

    Raises
    ------
    BadInput
        For an unknown name, or a number out of range.
    """

    model: str = "gpt2-xl"
    tokens: float = 30e9
    device: str = "h100"
    precision: str = "bf16"
    gpus: int = 16
    gpus_per_node: int = 8
    mfu: float = 0.40
    runs: int = 3
    reserve: float = 0.10
    study: str = "weak"

    def __post_init__(self) -> None:
        refuse_unknown("model", self.model, GPT)
        refuse_unknown("device", self.device, hardware.DEVICES)
        refuse_unknown("precision", self.precision, hardware.DEVICES[self.device]["peak"])
        refuse_unknown("study", self.study, scaling.KINDS)
        for name in ("tokens", "gpus", "gpus_per_node", "runs", "mfu", "reserve"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not (math.isfinite(value) and value >= 0):
                raise BadInput(
                    f"request: {name} is {value!r}, and it must be a number of 0 or more."
                )
        for name in ("tokens", "gpus", "gpus_per_node", "runs", "mfu"):
            if getattr(self, name) == 0:
                raise BadInput(f"request: {name} is 0, so there is nothing to ask for.")
        for name in ("gpus", "gpus_per_node", "runs"):
            if getattr(self, name) % 1:
                raise BadInput(f"request: {name} is {getattr(self, name):g}; give a whole number.")
        if self.mfu > 1:
            raise BadInput(
                f"request: mfu is {self.mfu:g}, and no device computes faster than its peak: give"
                " a share of at most 1, such as 0.4."
            )
        if self.gpus % self.gpus_per_node:
            raise BadInput(
                f"request: {self.gpus} GPUs do not fill nodes of {self.gpus_per_node}, and whole"
                f" nodes are paid for: ask for {-(-self.gpus // self.gpus_per_node)} nodes, which"
                f" have {-(-self.gpus // self.gpus_per_node) * self.gpus_per_node} GPUs."
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Request:
        """Make a request from the entries of a file, and refuse unknown ones."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise BadInput(
                    f"request: there is no setting {name!r}; choose from {', '.join(known)}."
                    + did_you_mean(str(name), known)
                )
        return cls(**given)


class Line(NamedTuple):
    """A line of the arithmetic: what, how it is computed, its value with a unit, its source."""

    what: str
    how: str
    value: float
    unit: str
    source: str

    @property
    def said(self) -> str:
        """The value as people write it, with its unit."""
        return f"{short(self.value)} {self.unit}".rstrip()


class Costs(NamedTuple):
    """The lines of the arithmetic, and the node-hours of the worst, middle and best repeat."""

    lines: list[Line]
    worst: int
    middle: int
    best: int
    measured_on: int


def costs(request: Request, studies: Mapping[str, Sequence[Mapping[str, Any]]]) -> Costs:
    """Compute what a request costs, from the efficiency that a study measured.

    Raises
    ------
    BadInput
        When the study is missing, or has runs on one rank only.
    """
    rows = studies.get(request.study, ())
    each = scaling.paired(rows) if rows else {}
    most = max(each, default=1)
    if most < 2:
        raise BadInput(
            f"a request needs a measured efficiency on two ranks or more, and there is no such"
            f" {request.study} study: run `dtlib study {request.study} text --ranks 1,2`."
        )
    values = each[most]
    ends = [_nodes_needed(request, value, most) for value in (min(values), max(values))]
    lines = _lines(request, statistics.median(values), most)
    return Costs(lines, max(ends), int(lines[-1].value), min(ends), most)


def _carried(request: Request, efficiency: float, most: int) -> float:
    """Return the efficiency on as many ranks as the request has GPUs; at most 1."""
    if request.gpus <= 1:
        return 1.0
    if request.gpus == most:
        return min(efficiency, 1.0)
    return extrapolated(request.study, efficiency, most, request.gpus)


def _nodes_needed(request: Request, efficiency: float, most: int) -> int:
    flop, peak = _flop(request)[0], hardware.peak(request.device, request.precision)
    share = _carried(request, efficiency, most)
    return rounded_up(
        node_hours(flop, peak, request.mfu, share, request.gpus_per_node, request.runs,
                   request.reserve)
    )  # fmt: skip


def rounded_up(hours: float) -> int:
    """Return whole node-hours; what is above one only by rounding errors is not a further one."""
    return math.ceil(hours * (1 - 1e-12))


def _flop(request: Request) -> tuple[float, float]:
    """Return FLOP of a run, and of a token."""
    setup = Setup(request.model, micro_batch=1)
    token = estimate(setup).flop[0] / setup.sequence
    return token * request.tokens, token


def _lines(request: Request, efficiency: float, most: int) -> list[Line]:
    """Return all lines, from the tokens to the request."""
    flop, token = _flop(request)
    peak = hardware.peak(request.device, request.precision)
    title = hardware.DEVICES[request.device]["title"]
    alone = gpu_hours(flop, peak, request.mfu)
    return [
        Line("tokens of a run", "what the model is trained on", request.tokens, "tokens", CHOICE),
        Line("FLOP of a token", f"forward and backward of {request.model}", token,
             "FLOP/token", SIM),
        Line("FLOP of a run", f"{short(request.tokens)} tokens × {short(token)} FLOP/token", flop,
             "FLOP", ARITHMETIC),
        Line("peak of a GPU", f"{title}, {request.precision}, dense", peak, "FLOP/s", SHEET),
        Line("MFU of one GPU", "share of the peak; measure your own on one GPU first", request.mfu,
             "of 1", ASSUMED),
        Line("one GPU alone",
             f"{short(flop)} FLOP / ({short(peak)} FLOP/s × {request.mfu:g}) / 3600 s/h", alone,
             "GPU-hours", ARITHMETIC),
        *_efficiencies(request, efficiency, most),
        *_node_hours(request, alone, _carried(request, efficiency, most)),
    ]  # fmt: skip


def _efficiencies(request: Request, efficiency: float, most: int) -> list[Line]:
    """Return the line of the measured efficiency and, if it is not the one used, that one."""
    kind, gpus = request.study, request.gpus
    share = _carried(request, efficiency, most)
    found = [
        Line("measured efficiency", f"{kind} scaling on {most} ranks, median of the repeats",
             efficiency, "of 1", MEASURED)
    ]  # fmt: skip
    if share != efficiency:
        how = f"from {most} ranks, if a ring all-reduce is all that is lost: (N − 1)/N of it on N"
        how = "at most 1" if gpus == most else f"{how} = {gpus}"
        found.append(Line(f"efficiency on {gpus} GPUs", how, share, "of 1", SIMULATED))
    return found


def _node_hours(request: Request, alone: float, share: float) -> list[Line]:
    """Return the lines from the GPU-hours of one GPU alone to the request."""
    nodes = request.gpus // request.gpus_per_node
    together = alone / share
    one = together / request.gpus_per_node
    several = one * request.runs
    whole = several * (1 + request.reserve)
    return [
        Line(f"{request.gpus} GPUs together", f"{short(alone)} GPU-hours / {short(share)}",
             together, "GPU-hours", ARITHMETIC),
        Line("one run", f"{short(together)} GPU-hours / {request.gpus_per_node} GPUs per node",
             one, "node-hours", ARITHMETIC),
        Line("time of a run", f"{short(one)} node-hours / {nodes} node{'s' * (nodes > 1)}",
             one / nodes, "hours", ARITHMETIC),
        Line("all runs", f"{short(one)} node-hours × {request.runs} runs", several, "node-hours",
             ARITHMETIC),
        Line("with a reserve", f"{short(several)} node-hours × (1 + {request.reserve:g})", whole,
             "node-hours", ARITHMETIC),
        Line("request", "rounded up to whole node-hours", rounded_up(whole), "node-hours",
             ARITHMETIC),
    ]  # fmt: skip


def short(value: float) -> str:
    """Return a number as people write it: 1,234 or 8.53·10⁸, with four digits at most."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    power = math.floor(math.log10(abs(value)))
    digits = f"{value / 10**power:.4g}"
    return f"{digits}·10{str(power).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
