"""Hand a lesson, or a script of `slurm/`, to sbatch or to Kubernetes."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dtlib.cluster.batch import kubernetes
from dtlib.cluster.batch.following import Job
from dtlib.config.files import writable_folder
from dtlib.errors import BadInput, Unavailable, counted, refuse_unknown
from dtlib.learn.source import find, lessons
from dtlib.ranks.processes import run

LESSON = "lesson"
NO_CONTROLLER = re.compile(
    r"[Uu]nable to contact slurm controller|configuration source|[Uu]nable to establish controller"
)


def home() -> Path:
    """Return the folder of the course, which contains `slurm/`."""
    return Path(__file__).resolve().parents[3]


def script_names() -> list[str]:
    """Return the scripts of `slurm/` that are submitted by name; lessons go by number."""
    return sorted(p.stem for p in (home() / "slurm").glob("*.sbatch") if p.stem != LESSON)


def out_folder(given: Path | None) -> Path:
    """Return the folder of the jobs: `--out`, otherwise the site's, otherwise `batch` here."""
    return Path(given or site_variables().get("DTLIB_BATCH_OUT") or "batch").resolve()


def site_variables() -> dict[str, str]:
    """Read the site's settings as the shell does, and return the environment with them."""
    site = Path(os.environ.get("DTLIB_SITE") or home() / "slurm" / "site.env")
    if not site.is_file():
        return dict(os.environ)
    script = 'set -a; . "$1" >&2; set +a; env -0'
    done = run(["bash", "-euc", script, "site", str(site)], apart=True)
    if done.code != 0:
        said = (done.errors.strip() or "no message").splitlines()[-1]
        raise BadInput(f"the site settings {site} cannot be read: {said}.")
    pairs = (entry.partition("=") for entry in done.output.split("\0") if entry)
    return {name: value for name, _, value in pairs}


def submit(
    args: argparse.Namespace, out: Path, settings: Sequence[str], further: Sequence[str]
) -> int:
    """Submit a lesson or a script, after refusing what would fail in the job.

    Parameters
    ----------
    args
        The parsed flags of `dtlib batch submit`.
    out
        The folder of the jobs.
    settings
        The script's own settings.
    further
        More options for sbatch.

    Raises
    ------
    BadInput
        For an unknown lesson, script or parameter, a number below 1, or what sbatch refuses.
    Unavailable
        Where there is no sbatch.
    """
    wanted = 1 if args.nodes is None else args.nodes
    if wanted < 1 or args.gpus_per_node < 0:
        raise BadInput(
            f"--nodes must be at least 1 and --gpus-per-node at least 0; you gave"
            f" {wanted} and {args.gpus_per_node}."
        )
    if args.on == "kubernetes":
        return kubernetes.submit(args, home(), out, _words(args, settings), further)
    if args.image:
        raise BadInput("--image is for --on kubernetes; Slurm's is DTLIB_IMAGE in slurm/site.env.")
    number = args.what.isdecimal()
    name, words, instead = (_lesson if number else _script)(args, settings)
    if shutil.which("sbatch") is None:
        raise Unavailable(
            "there is no sbatch here: run `dtlib batch` on a login node of a Slurm cluster "
            f"({instead})."
        )
    writable_folder(out)
    script = home() / "slurm" / f"{LESSON if number else name}.sbatch"
    job = Job(0, f"dtlib-{name}", args.what if number else name, wanted)
    job.array = "#SBATCH --array" in script.read_text(encoding="utf-8")
    command = [*_options(args, job, out), *further, str(script), *words]
    job.id, job.arguments = _sbatch(command, out, instead), command[1:]
    job.save(out)
    what = f"lesson {args.what}" if number else name
    print(f"Job {job.id}: {what} on {counted(job.nodes, 'node')}. Its log: {job.log(out)}")
    print("`dtlib batch status` shows its state, `dtlib batch collect` gathers its results.")
    return 0


def _lesson(args: argparse.Namespace, settings: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the lesson's name, its script's arguments, and what to do without Slurm."""
    from dtlib.lessons.parameters import read_parameters
    from dtlib.lessons.validate import validate_all

    lesson = find(args.what)
    if settings:
        raise BadInput(f"a lesson takes no {settings[0]!r}; give its parameters as -p NAME=VALUE.")
    validate_all(lessons(lesson.room.parent))
    read_parameters([lesson], args.parameter)
    words = [lesson.number, "--kind", args.kind or "student"]
    words += [word for text in args.parameter for word in ("-p", text)]
    return lesson.stem, words, f"`dtlib lessons run {lesson.number}` runs it on this machine"


def _words(args: argparse.Namespace, settings: Sequence[str]) -> list[str]:
    """Return what runs after `dtlib` in a pod."""
    if not args.what.isdecimal():
        if args.kind or args.parameter:
            raise BadInput(f"--kind and -p belong to lessons; {args.what} takes settings directly.")
        ranks = (args.nodes or 1) * (args.gpus_per_node or kubernetes.RANKS)
        return kubernetes.words_of_training(args.what, settings, ranks)
    if (args.nodes or 1) > 1:
        raise BadInput(f"a lesson runs in one pod; leave out --nodes {args.nodes}.")
    return ["lessons", "run", *_lesson(args, settings)[1], "--jobs=1"]


def _script(args: argparse.Namespace, settings: Sequence[str]) -> tuple[str, list[str], str]:
    name = args.what.removesuffix(".sbatch")
    refuse_unknown("lesson or script", name, ["a lesson's number", *script_names()])
    if args.kind or args.parameter:
        raise BadInput(
            f"--kind and -p belong to lessons; {name} takes its settings directly, such as"
            " --steps 100."
        )
    return name, list(settings), "`dtlib train` and `dtlib study` run on this machine"


def _options(args: argparse.Namespace, job: Job, out: Path) -> list[str]:
    log = "%x-%A_%a.log" if job.array else "%x-%j.log"
    command = ["sbatch", "--parsable", f"--job-name={job.name}"]
    command += [f"--output={out / log}", f"--chdir={Path.cwd()}"]
    for name in ("nodes", "gpus_per_node", "time"):
        if getattr(args, name):
            command.append(f"--{name.replace('_', '-')}={getattr(args, name)}")
    return [*command, *_shares(args)]


def _shares(args: argparse.Namespace) -> list[str]:
    """Scale a node's CPUs and memory with its GPUs; without GPUs the script's request stands."""
    site, shares = site_variables(), []
    for name, default in (("DTLIB_CPUS_PER_GPU", "8"), ("DTLIB_GB_PER_GPU", "32")):
        said = site.get(name) or default
        if not said.isdecimal() or int(said) < 1:
            raise BadInput(
                f"{name}={said} in the site settings must be a whole number, at least 1."
            )
        shares.append(args.gpus_per_node * int(said))
    cpus, memory = args.cpus_per_task or shares[0], shares[1]
    return [f"--cpus-per-task={cpus}"] * bool(cpus) + [f"--mem={memory}G"] * bool(memory)


def _sbatch(command: Sequence[str], out: Path, instead: str) -> int:
    site = site_variables()
    ours = {"DTLIB_HOME": str(home()), "DTLIB_BATCH_OUT": str(out)}
    if not site.get("DTLIB_IMAGE"):  # a container brings its own
        ours["DTLIB_PYTHON"] = site.get("DTLIB_PYTHON", sys.executable)
    done = run(command, env={**site, **ours}, apart=True)
    number = re.match(r"\d+", done.output)
    if done.code != 0 or number is None:
        lines = [line for line in done.errors.splitlines() if line.startswith("sbatch: error: ")]
        said = (lines or done.errors.strip().splitlines() or ["no message"])[-1]
        if NO_CONTROLLER.search(done.errors):
            raise Unavailable(
                "sbatch is here but cannot reach Slurm's controller, so no job was submitted; try"
                f" again on a login node, or without Slurm: {instead}."
            )
        raise BadInput(f"sbatch refused the job: {said.removeprefix('sbatch: error: ')}.")
    return int(number[0])
