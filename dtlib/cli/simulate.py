"""`dtlib sim memory`: predict what a rank holds, also on a device that is not in this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import typing
from typing import Any

from dtlib import strategies
from dtlib.config.flags import Parser, add_settings, hyphens, one_of
from dtlib.config.mesh import Mesh
from dtlib.config.values import HF, typed
from dtlib.errors import BadInput, counted, refuse_unknown
from dtlib.sim import fitting, hardware, memory, states
from dtlib.sim.activations import ATTENTION, CHECKPOINTING
from dtlib.sim.estimate import LOSSES, Estimate, Setup, estimate
from dtlib.sim.stages import COUNTED

WORDS = {
    "strategy": [*states.DIVIDED],
    "precision": [*memory.PRECISIONS],
    "optimizer": [*states.MOMENTS],
    "attention": [*ATTENTION],
    "checkpointing": [*CHECKPOINTING],
    "loss": [*LOSSES],
    "pipeline_schedule": [*COUNTED],
}
COMMANDS = ("memory",)


def main(words: list[str]) -> int:
    """Run `dtlib sim …` and return its exit code."""
    if not words or words[0] in ("-h", "--help"):
        one_of("dtlib sim", COMMANDS).parse_args([])  # a shell may ask which words there are
        print(
            "dtlib sim memory [--model M] [--strategy S] [--ranks N] …\n\n`dtlib sim memory --help`"
        )
        return 0
    refuse_unknown("simulation", words[0], COMMANDS)
    setup, device, as_json = parse_memory(words[1:])
    found = estimate(setup)
    print(to_json(setup, found, device) if as_json else table(setup, found, device))
    return 0


def parse_memory(words: list[str]) -> tuple[Setup, str | None, bool]:
    """Make the setup of `dtlib sim memory`, the device to compare with, and whether JSON is wanted.

    Raises `BadInput` when a flag or a value is unknown, or two contradict each other.
    """
    flags = vars(_parser().parse_args([hyphens(word) for word in words]))
    device, as_json = flags.pop("device", None), flags.pop("json", False)
    if device is not None:
        refuse_unknown("device", device, hardware.DEVICES)
    name = flags.get("strategy")
    if name in strategies.names() and not memory.knows(name):
        raise BadInput(
            f"sim has no formula for strategy {name}; it predicts {', '.join(states.DIVIDED)}."
        )
    # one rank for what cannot have more, otherwise as many as `dtlib train` starts
    mesh = Mesh.of(flags["mesh"]) if "mesh" in flags else None
    flags.setdefault("ranks", 1 if name == "single" else mesh.size if mesh else 2)
    if name == "pipeline":  # enough micro-batches to fill its stages
        flags.setdefault("accumulation", mesh.pipeline if mesh else flags["ranks"])
    flags.setdefault("loss", "auto")
    if flags.get("model", "").startswith(HF):
        from dtlib.data.pretrained import folder_of

        flags["model"] = f"{HF}{folder_of(flags['model'])}"
    hints = typing.get_type_hints(Setup)
    values = {name: typed(name, value, hints[name]) for name, value in flags.items()}
    return Setup(**values), device, as_json


def _parser() -> Parser:
    parser = Parser(
        prog="dtlib sim memory",
        description="Predict what one rank holds and sends, and whether it fits on a device.",
        argument_default=argparse.SUPPRESS,
    )
    add_settings(parser, kind=Setup, choices=WORDS)
    known = ", ".join(hardware.DEVICES)
    parser.add_argument("--device", metavar="NAME", help=f"say whether it fits on one of: {known}")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    return parser


def table(setup: Setup, found: Estimate, device: str | None) -> str:
    """Return the estimate as text."""
    mesh = f" ({setup.axes})" if setup.mesh or setup.tensor > 1 else ""
    unit = f"a window of {setup.sequence} tokens" if setup.is_text else "a picture"
    lines = [
        f"Simulated: {setup.model}, {found.parameters:,} parameters, strategy {setup.strategy},"
        f" {setup.precision} on {counted(setup.ranks, 'rank')}{mesh};",
        f"micro-batch {setup.micro_batch} × accumulation {setup.accumulation}, a sample is {unit}.",
        *more_settings(setup),
        "One rank, in GB (10⁹ bytes):",
        "",
    ]
    for place in memory.PLACES:
        rows = [row for row in found.rows if row.place == place]
        lines += [f"  {place}"] * bool(rows)
        lines += [f"    {r.kind.replace('_', ' '):<15}{_gb(r.size):>11}  {r.why}" for r in rows]
    for moment, size in found.peaks.items():
        lines.append(f"  {'device, ' + moment:<34}{_gb(size):>11}")
    if found.traffic:
        lines += ["", "  sent in an optimizer step          payload  ring wire"]
        for row in found.traffic:
            what = f"{row.collective}, {row.carries}"
            lines.append(f"    {what:<32}{_gb(row.payload):>8}{_gb(row.wire):>11}")
    said = ["", *verdict(setup, found, device), *what_would_fit(setup, device)] if device else []
    return "\n".join(lines + said)


def more_settings(setup: Setup) -> list[str]:
    """Say what else changes the memory of a GPT: vocabulary, loss, checkpointing."""
    if not setup.is_text:
        return []
    loss = "in chunks, logits never stored whole" if setup.is_chunked else "of all logits at once"
    return [
        f"Vocabulary of {setup.vocab_size:,}, loss {loss}, checkpointing {setup.checkpointing}."
    ]


def verdict(setup: Setup, found: Estimate, device: str) -> list[str]:
    """Say in a sentence or two whether a rank's peak memory fits on a device."""
    row = hardware.DEVICES[device]
    moment, most = found.peak()
    share = most / row["memory"]
    fits = "fits on" if share <= 1 else "does not fit on"
    lines = [
        f"It {fits} {row['title']}: at most {_gb(most)} of {_gb(row['memory'])} GB"
        f" ({share:.0%}), {moment}."
    ]
    if not computes_in(setup.precision, device):
        lines.append(
            f"But {row['title']} does not compute in {setup.precision}; use --precision"
            f" {'fp16' if setup.precision == 'bf16' else 'fp32'}."
        )
    if 0.9 < share <= 1:
        lines.append("That leaves less than 10% free, which CUDA and fragmentation can take.")
    return lines


def computes_in(precision: str, device: str) -> bool:
    """Tell whether a device computes in a precision; older GPUs have no bf16 and no tf32."""
    return precision not in ("bf16", "tf32") or precision in hardware.DEVICES[device]["peak"]


def what_would_fit(setup: Setup, device: str) -> list[str]:
    """Return a line for each change that would make the run fit; no line if it fits already."""
    memory = hardware.DEVICES[device]["memory"]
    if fitting.peak(setup) <= memory:
        return []
    ways = fitting.ways(setup, memory)
    lines = [f"  {way.flags}: at most {_gb(way.peak)} GB" for way in ways]
    lines = lines or [
        "  no smaller micro-batch, no other strategy; use more ranks or a smaller model"
    ]
    return [f"With {1 - fitting.SPARE:.0%} of it in use, these would fit:", *lines]


def to_json(setup: Setup, found: Estimate, device: str | None) -> str:
    """Return the estimate as one line of JSON, all sizes in bytes."""
    moment, most = found.peak()
    content: dict[str, Any] = {
        "measured_or_simulated": "simulated",
        "setup": dataclasses.asdict(setup),
        "parameters": found.parameters,
        "memory": [row._asdict() for row in found.rows],
        "peaks": found.peaks,
        "peak": {"moment": moment, "bytes": most},
        "communication": [row._asdict() for row in found.traffic],
        "model_flop_per_step": found.flop[0],
        "hardware_flop_per_step": found.flop[1],
    }
    if device:
        row = hardware.DEVICES[device]
        content["device"] = {
            "name": device,
            "title": row["title"],
            "memory": row["memory"],
            "fits": most <= row["memory"],
            "has_precision": computes_in(setup.precision, device),
            "source": row["source"],
        }
    return json.dumps(content)


def _gb(size: float) -> str:
    return f"{size / 1e9:.3f}"
