"""`dtlib batch submit | status | collect | launch`: lessons and scripts as Slurm jobs.

Every job has a folder, `batch/NAME-JOBID`: `job.json` says what was submitted, `r0/`, `r1/` … hold
the notebook of each start of the job (a requeued job starts again), `work/` their other files,
`exit-code.r0` the exit code of the first one. The log is beside the folder. So the state of a job
is known even after Slurm has forgotten it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtlib.cluster.batch.following import (
    ENDED,
    Job,
    ask,
    collect,
    jobs,
    read,
    refresh,
    refreshed,
    refuse_other,
    status,
)
from dtlib.cluster.batch.submitting import home, out_folder, script_names, site_variables, submit
from dtlib.config.flags import Parser, add_json
from dtlib.errors import BadInput

__all__ = [
    "ENDED", "Job", "ask", "collect", "home", "jobs", "main", "parser", "read", "refresh",
    "refreshed", "site_variables", "status", "submit",
]  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code, or raise `DtlibError` if it cannot be run."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["launch"]:
        from dtlib.cluster.batch.launching import main as launch

        return launch(words[1:])
    words, further = _split(words)
    args, unknown = parser().parse_known_args(words)
    out = out_folder(args.out)
    if args.command == "submit":
        return submit(args, out, unknown, further)
    if unknown:
        raise BadInput(f"{args.command} does not know {unknown[0]!r}; see `dtlib batch --help`.")
    if further:
        raise BadInput(f"{args.command} takes nothing after --.")
    if out.exists() or args.out:
        refuse_other(out)
    elif args.command == "collect":
        raise BadInput(f"there are no jobs in {out} to collect; run `dtlib batch submit` first.")
    if args.command == "status":
        return status(out, as_json=args.json)
    return collect(out, args.to, as_json=args.json)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def parser() -> argparse.ArgumentParser:
    """Return the parser of `dtlib batch`."""
    top = Parser(
        prog="dtlib batch", description="Run lessons and scripts as jobs of Slurm or Kubernetes."
    )
    commands = top.add_subparsers(dest="command", required=True)
    out = Parser(add_help=False)
    out.add_argument("--out", type=Path, help="folder of the jobs (default: batch)")
    _add_submit(commands, out)
    add_json(commands.add_parser("status", parents=[out], help="show the state of each job"))
    collecting = commands.add_parser(
        "collect",
        parents=[out],
        help="copy the notebooks into one folder, with a table of the runs",
    )
    add_json(collecting)
    collecting.add_argument("--to", type=Path, help="folder (default: collected, among the jobs)")
    commands.add_parser("launch", help="start the training that a file describes: `launch --help`")
    return top


def _add_submit(commands: Any, out: Parser) -> None:
    submitting = commands.add_parser(
        "submit",
        parents=[out],
        help="submit a lesson, a script, or on Kubernetes a training",
        usage="dtlib batch submit NN|SCRIPT [--on kubernetes --image I] [--nodes N]"
        " [--gpus-per-node G] [--time T] [-p NAME=VALUE] [SETTING …] [-- SBATCH-OPTION …]",
        epilog=f"scripts: {', '.join(script_names())}",
    )
    submitting.add_argument(
        "what",
        metavar="NN|SCRIPT",
        help="a lesson's number or a script's name; on Kubernetes images or text",
    )
    submitting.add_argument(
        "--on", choices=("slurm", "kubernetes"), default="slurm", help="what runs it"
    )
    submitting.add_argument(
        "--image", metavar="IMAGE", help="for Kubernetes: the course's image, where you pushed it"
    )
    submitting.add_argument("--nodes", type=int, metavar="N", help="number of nodes")
    submitting.add_argument("--gpus-per-node", type=int, default=0, metavar="G")
    submitting.add_argument("--cpus-per-task", type=int, metavar="C", help="CPUs on each node")
    submitting.add_argument(
        "--time", metavar="T", help="time limit, as for sbatch: 90, 1:30:00, 1-0"
    )
    submitting.add_argument("--kind", choices=("student", "instructor"), help="version of a lesson")
    submitting.add_argument(
        "-p", "--parameter", action="append", default=[], metavar="NAME=VALUE", help="for a lesson"
    )
