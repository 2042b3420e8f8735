"""`dtlib clinic FILES…`, `record SCRIPT` and `spy`: why a program on many ranks hangs."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from dtlib.config.flags import Parser, add_json
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput

HELP = """\
dtlib clinic FILES… [--ranks N] [--patience SECONDS] [--json]
dtlib clinic record [--into FOLDER] [--every SECONDS] SCRIPT [WORD …]
dtlib clinic spy [--into FOLDER] [PID …]

Say which rank waits for which other one, in which collective, on which line, from what the ranks
left behind. FILES are files, or folders of them, whose names end in the rank's number:

  flight recorder   flight_rank_3       torch's dump, as a pickle or as JSON
  stacks            stack_rank_3.txt    by py-spy or faulthandler
  logs              rank_3.log          or a job's output with [rank3]: (torch) or 3: (srun
                                        --label) before each line, or torchrun's folder of
                                        --log-dir; errors, time-outs by NCCL's watchdog, and
                                        checksums in lines such as "step 7: checksum 1.25" or
                                        {"step": 7, "checksum": 1.25}

How to get them for your own program, which needs no change (first: mkdir -p dumps):

  any backend   torchrun --nproc-per-node 4 -m dtlib clinic record --into dumps train.py …
                writes dumps and stacks of every rank into dumps/ every 5 seconds, and where a
                rank was when a signal killed it
  NCCL          TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 \\
                TORCH_FR_DUMP_TEMP_FILE=dumps/flight_rank_ torchrun … train.py
                torch itself writes the dumps when a collective times out (gloo never does)
  stacks        dtlib clinic spy --into dumps      of ranks that hang already, on each node
                (needs py-spy: pip install py-spy; it may need sudo), or
                PYTHONFAULTHANDLER=1 torchrun …, and `kill -ABRT` with the PIDs of all ranks at
                once: each writes its stack into its log and ends. If only one rank gets the
                signal, torchrun ends the others before they write theirs
  logs          torchrun --log-dir dumps/node0 --redirects 3 … train.py
                with each node's own number, because torchrun names logs after the local rank

Then: dtlib clinic dumps      (files from other nodes with their times: scp -p, rsync -t)

Exit codes: 0 no alarm, 1 something is wrong, 2 the files cannot be used.
"""


def main(words: list[str]) -> int:
    """Run `dtlib clinic …` and return its exit code.

    Raises `BadInput` for files that say nothing and for settings that are wrong, and `Unavailable`
    where py-spy is missing.
    """
    if words[:1] == ["record"]:
        return _record(words[1:])
    if words[:1] == ["spy"]:
        return _spy(words[1:])
    if words[:1] in (["-h"], ["--help"]):
        print(HELP, end="")
        return 0
    args = _parser().parse_args(words)  # a shell may ask here which settings there are
    if not args.files:
        raise BadInput("give files or folders that the ranks left; `dtlib clinic --help` says how.")
    from dtlib.measure.clinic import evidence, verdict

    found = evidence.gather(args.files, args.ranks)
    report = verdict.examine(found, args.patience)
    alarm = any(finding.alarm for finding in report.findings)
    print(to_json({"alarm": alarm, **vars(report)}) if args.json else _text(report))
    return 1 if alarm else 0


def _text(report: object) -> str:
    from dtlib.measure.clinic.findings import listed
    from dtlib.measure.clinic.verdict import NOTHING, Report

    assert isinstance(report, Report)
    lines = [finding.sentence for finding in report.findings]
    if not lines:
        lines = ["Nothing is wrong, as far as these files tell: no rank waits for another."]
    lines += ["", *(f"  rank {r} {what}" for r, what in report.ranks.items() if what != NOTHING)]
    if nothing := [rank for rank, what in report.ranks.items() if what == NOTHING]:
        lines += [f"  {listed(nothing)} {NOTHING}"]
    if report.missing:
        lines += ["", f"Missing: {'; '.join(report.missing)}."]
    return "\n".join(lines)


def _parser() -> Parser:
    parser = Parser(prog="dtlib clinic", description="Say which rank waits for which other one.")
    which = "dumps, stacks and logs of the ranks, or folders of them"
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help=which)
    ranks = "how many ranks there were (default: as the files say)"
    parser.add_argument("--ranks", type=_whole, metavar="N", help=ranks)
    patience = (
        "how long a wait may last before it counts as a hang; 0 if you know that it hangs"
        " (default: 10, or five times the run's longest pause, if that is more, and at least 300"
        " while the rank that is waited for uses the CPU)"
    )
    parser.add_argument("--patience", type=_seconds, metavar="SECONDS", help=patience)
    add_json(parser)
    return parser


def _record(words: list[str]) -> int:
    parser = Parser(
        prog="dtlib clinic record",
        description="Run a script on the ranks of torchrun or srun, and keep what `dtlib clinic`"
        " reads.",
    )
    into = "folder for dumps and stacks (default: dumps)"
    parser.add_argument("--into", type=Path, default=Path("dumps"), metavar="FOLDER", help=into)
    every = "time between two dumps (default: 5)"
    parser.add_argument("--every", type=_seconds, default=5.0, metavar="SECONDS", help=every)
    parser.add_argument("script", metavar="SCRIPT", help="the program, and its own words after it")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    from dtlib.config.files import writable_folder
    from dtlib.measure.clinic import record
    from dtlib.ranks.environment import environment_world

    world = environment_world()
    if world is None:
        raise BadInput(
            "neither torchrun nor srun started this process: write `torchrun --nproc-per-node 4 -m"
            " dtlib clinic record SCRIPT`."
        )
    if not Path(args.script).is_file():
        raise BadInput(f"there is no script {args.script}; give the path of a Python file.")
    if args.every <= 0:
        raise BadInput(f"--every is {args.every:g}; it must be more than 0 seconds.")
    folder = writable_folder(args.into, "--into")
    return record.run(args.script, args.words, world, folder, args.every)


def _spy(words: list[str]) -> int:
    parser = Parser(
        prog="dtlib clinic spy",
        description="Write the stacks of ranks that hang, for `dtlib clinic` to read.",
    )
    into = "folder for the stacks (default: dumps)"
    parser.add_argument("--into", type=Path, default=Path("dumps"), metavar="FOLDER", help=into)
    which = "the ranks' processes (default: all that torchrun or srun started on this machine)"
    parser.add_argument("pids", nargs="*", type=_pid, metavar="PID", help=which)
    args = parser.parse_args(words)
    from dtlib.config.files import writable_folder
    from dtlib.measure.clinic import spy

    written = spy.keep_stacks(writable_folder(args.into, "--into"), args.pids)
    print("\n".join(f"rank {rank}: {path}" for rank, path in written.items()))
    return 0


def _pid(text: str) -> int:
    if not text.isdecimal():
        raise BadInput(f"{text!r} is no PID; give the numbers of the ranks' processes.")
    return int(text)


def _whole(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise BadInput(f"--ranks is {text!r}; it must be a whole number of at least 1.")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadInput(f"{text!r} is no number of seconds; give one of at least 0.")
    return value
