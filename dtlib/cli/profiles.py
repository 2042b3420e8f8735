"""`dtlib profile nsys | ncu | read`: a run under NVIDIA's profilers, and what they wrote."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dtlib.config.flags import Parser, add_json, one_of
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput, Unavailable, counted, refuse_unknown
from dtlib.measure.columns import aligned
from dtlib.measure.profiling import commands, tables
from dtlib.ranks.environment import EnvWorld, environment_world

if TYPE_CHECKING:
    from dtlib.config import RunConfig

HELP = """\
dtlib profile nsys|ncu [--out NAME] [--first N] [--last N] [--only RANKS] [--print] -- train …
dtlib profile read FILE [--device NAME] [--top N]

nsys records when each kernel of some steps ran; ncu measures single kernels. Under torchrun or
srun every rank has its own profiler. `dtlib profile nsys --help` lists all settings.
"""
WHERE = {
    "nsys": "Nsight Systems; it comes with the CUDA toolkit (cuda/bin) and from"
    " https://developer.nvidia.com/nsight-systems",
    "ncu": "Nsight Compute; it comes with the CUDA toolkit (cuda/bin) and from"
    " https://developer.nvidia.com/nsight-compute",
}
# ncu measures a kernel by running it again and again, so it gets fewer steps
STEPS = {"nsys": (5, 7), "ncu": (5, 5)}
TOOLS = (*STEPS, "read")


def main(words: list[str]) -> int:
    """Run `dtlib profile …` and return its exit code."""
    if not words or words[0] in ("-h", "--help"):
        one_of("dtlib profile", TOOLS).parse_args([])  # a shell may ask which words there are
        print(HELP, end="")
        return 0
    if words[0] == "read":
        return read(words[1:])
    refuse_unknown("profile", words[0], TOOLS)
    return profile(words[0], words[1:])


def profile(tool: str, words: list[str]) -> int:
    """Run `dtlib train …` under a profiler, or print the command line for it.

    Raises `BadInput` when no training run follows `--`, or a setting is wrong; `Unavailable` where
    the profiler is not installed.
    """
    begins = next((word for word in ("--", "train") if word in words), "")
    at = words.index(begins) if begins else len(words)
    settings, run = _parser(tool).parse_args(words[:at]), words[at + (begins == "--") :]
    if run[:1] != ["train"]:
        raise BadInput(f"say what to profile: `dtlib profile {tool} -- train text --steps 20`.")
    from dtlib.cli.training import parse_train, train

    config, _ = parse_train(run[1:])  # errors in it are reported before anything starts
    there = environment_world()
    _refuse(tool, settings, config, there)
    settings.out = settings.out or str(Path(config.out or ".") / tool)
    variable = commands.VARIABLES[there.source] if there else None
    line = _line(tool, settings, [sys.executable, "-m", "dtlib", *run], variable)
    folder = Path(settings.out).parent  # the profilers do not create it
    if settings.print:
        first = "" if folder == Path() else f"mkdir -p {shlex.quote(str(folder))} && "
        print(first + shlex.join(line))
        return 0
    if shutil.which(tool) is None:
        raise Unavailable(f"there is no {tool} here ({WHERE[tool]}); --print shows the command.")
    if there and settings.only is not None and there.rank not in settings.only:
        return train(commands.marked(run, settings.first, settings.last)[1:])
    report = settings.out + (f".rank{there.rank}" if there else "")
    folder.mkdir(parents=True, exist_ok=True)
    code = subprocess.run(line, check=False).returncode
    written = _table(report) if tool == "ncu" and code == 0 else f"{report}.sqlite"
    if code == 0:
        print(f"Read it with `dtlib profile read {written}`.")
    return code


def _refuse(
    tool: str, settings: argparse.Namespace, config: RunConfig, there: EnvWorld | None
) -> None:
    """Raise BadInput if the profiler's settings contradict those of the run."""
    if config.profile:
        raise BadInput(
            f"--profile and {tool} cannot profile the same run: CUPTI serves one profiler at a"
            " time; leave --profile out."
        )
    if config.device in ("cpu", "mps"):
        raise BadInput(f"{tool} records an NVIDIA GPU; leave --device {config.device} out.")
    if config.steps is not None and settings.first > config.steps:
        raise BadInput(
            f"first is {settings.first}, but the run has {counted(config.steps, 'step')}, so"
            " nothing would be recorded: give a smaller --first, or more --steps."
        )
    if settings.only is not None and there is None:
        raise BadInput(
            f"only {','.join(map(str, sorted(settings.only)))} selects ranks of torchrun or"
            f" srun, and neither started this process: start `dtlib profile {tool}` with one of"
            " them, or leave --only out."
        )


def _line(
    tool: str, settings: argparse.Namespace, command: Sequence[str], variable: str | None
) -> list[str]:
    given = {key: value for key, value in vars(settings).items() if key not in ("only", "print")}
    build = commands.nsys if tool == "nsys" else commands.ncu
    return build(command, variable=variable, **given)


def _table(report: str) -> str:
    """Export a report of ncu to a CSV file beside it, and return that file's name."""
    name = f"{report}.csv"
    with Path(name).open("w", encoding="utf-8") as file:
        subprocess.run(commands.ncu_csv(f"{report}.ncu-rep"), stdout=file, check=False)
    return name


def _parser(tool: str) -> Parser:
    usage = f"dtlib profile {tool} [SETTING …] -- train images|text [SETTING …]"
    parser = Parser(prog=f"dtlib profile {tool}", usage=usage)
    first, last = STEPS[tool]
    out = f"name of the report, no suffix (default: {tool} in the run's --out, otherwise here)"
    parser.add_argument("--out", metavar="NAME", help=out)
    settles = "first step to record, when the warm-up is over"
    _number(parser, "first", first, settles, least=1)
    _number(parser, "last", last, "last step to record", least=1)
    only = "ranks to profile, such as 0,3; the others run without a profiler (default: all)"
    parser.add_argument("--only", type=_ranks, metavar="RANKS", help=only)
    parser.add_argument("--print", action="store_true", help="only print the command line")
    if tool == "ncu":
        kernels = f"which kernels to measure (default: {commands.KERNELS})"
        parser.add_argument(
            "--kernels", type=_pattern, default=commands.KERNELS, metavar="REGEX", help=kernels
        )
        _number(parser, "skip", 0, "launches of these kernels to skip first")
        _number(parser, "count", 20, "launches to measure", least=1)
        sets, which = "|".join(commands.SETS), "ncu's set of sections (default: basic)"
        parser.add_argument("--set", dest="sections", default="basic", metavar=sets, help=which)
    return parser


def _number(parser: Parser, name: str, default: int, note: str, least: int = 0) -> None:
    note, kind = f"{note} (default: {default})", _whole(name, least)
    parser.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=note)


def _whole(name: str, least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not re.fullmatch(r"\d+", text) or int(text) < least:
            raise BadInput(f"{name} is {text!r}; it must be a whole number of at least {least}.")
        return int(text)

    return convert


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise BadInput(f"kernels is {text!r}, not a regular expression ({error}).") from None
    if not text:  # it would match NCCL's kernels too, see `commands.KERNELS`
        raise BadInput("kernels is empty; it must name kernels, such as gemm.")
    return text


def _ranks(text: str) -> set[int]:
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise BadInput(f"only is {text!r}; it takes ranks such as 0 or 0,3.")
    return {int(number) for number in text.split(",")}


def read(words: list[str]) -> int:
    """Print what is in an export of nsys, a CSV of ncu, or a folder of torch.profiler's traces.

    Raises `BadInput` when it is none of them; the message says how to make one.
    """
    parser = Parser(prog="dtlib profile read", description="Print what a profiler wrote.")
    which = "NAME.sqlite of nsys, NAME.csv of ncu, or the folder profile/ of a run"
    parser.add_argument("file", metavar="FILE", help=which)
    device = "device whose peaks to compare with (default: the GPU that was profiled)"
    parser.add_argument("--device", metavar="NAME", help=device)
    _number(parser, "top", 10, "ranges and kernels to list", least=1)
    add_json(parser)
    settings = parser.parse_args(words)
    path = Path(settings.file)
    if not path.exists():
        raise BadInput(f"there is no file {path}; give {which}.")
    if path.suffix in (".nsys-rep", ".ncu-rep"):
        raise BadInput(f"{path} is for NVIDIA's own viewer; first run `{_remedy(path)}`.")
    if path.suffix == ".csv":
        print(_ncu(path, settings.device, settings.top, settings.json))
    elif settings.device is not None:
        raise BadInput(
            f"device {settings.device} is compared only with a CSV file of ncu, and {path} is none;"
            " leave --device out."
        )
    else:
        as_json = settings.json
        print(_traces(path, as_json) if path.is_dir() else _nsys(path, settings.top, as_json))
    return 0


def _remedy(path: Path) -> str:
    """Return the command that converts a report to a file that `read` takes."""
    if path.suffix == ".nsys-rep":
        return shlex.join(["nsys", "export", "--type", "sqlite", str(path)])
    table = shlex.quote(str(path.with_suffix(".csv")))
    return f"{shlex.join(commands.ncu_csv(str(path)))} > {table}"


def _traces(folder: Path, as_json: bool) -> str:
    from dtlib.measure import profiling

    shares = profiling.shares(profiling.read(folder))
    if as_json:
        return to_json({"ranks": shares, "verdict": str(profiling.verdict(shares))})
    return f"{aligned(tables.of_ranks(shares))}\n{profiling.verdict(shares)}"


def _nsys(path: Path, top: int, as_json: bool) -> str:
    from dtlib.measure.profiling import nsys

    export = nsys.read(path)
    if as_json:
        return to_json(
            {**vars(export), "ranges": export.ranges[:top], "kernels": export.kernels[:top]}
        )
    none = "There are no NVTX ranges; `dtlib profile nsys` records them."
    parts = [
        "Shares of the captured time; kinds may overlap; exposed NCCL runs while no kernel does.\n"
        + _aligned(tables.of_gpus(export)),
        _aligned(tables.of_ranges(export, top)) if export.ranges else none,
        _aligned(tables.of_kernels(export, top)) if export.kernels else "There are no kernels.",
    ]
    if export.unknown:
        parts.append(f"Tables {nsys.not_read(export.unknown)}")
    return "\n\n".join(parts)


def _ncu(path: Path, device: str | None, top: int, as_json: bool) -> str:
    from dtlib.measure.profiling import ncu

    reached = ncu.read(path)
    rows = tables.of_reached(reached, device, top)
    if as_json:
        kernels = [
            {
                **vars(one),
                "flop_per_second": one.flop_per_second(),
                "bytes_per_second": one.bytes_per_second(),
            }
            for one in reached[:top]
        ]
        return to_json({"kernels": kernels, "peaks": tables.peaks_of(reached[:top], device)})
    return f"{_aligned(rows)}\n{tables.peaks_of(reached[:top], device)}"


def _aligned(rows: tables.Rows) -> str:
    return aligned(rows, left=0, last=True)  # names come last
