"""`dtlib batch submit … --on kubernetes`: write a Job's manifest, and hand it to kubectl.

The manifests of `docker/kubernetes/` are the templates, so what people read there is what runs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dtlib.config import RunConfig
from dtlib.config.belonging import refuse_without_effect
from dtlib.config.files import writable_folder, write_atomically
from dtlib.config.flags import Parser, add_settings, hyphens
from dtlib.config.values import CHOICES
from dtlib.errors import BadInput, Unavailable, counted, refuse_unknown
from dtlib.ranks.processes import run

GPU = "nvidia.com/gpu"
TAINTED = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
CPUS, GIB, SHARED_GIB = 8, 32, 4  # for each GPU
RANKS = 2  # ranks of a node without GPUs


def folder(home: Path) -> Path:
    """Return the folder of the manifests in the course's folder."""
    return home / "docker" / "kubernetes"


def render(
    args: argparse.Namespace, home: Path, words: Sequence[str], name: str
) -> list[dict[str, Any]]:
    """Return the objects of a job: its settings, its volume, its service, the Job itself.

    Parameters
    ----------
    args
        The parsed flags of `dtlib batch submit`.
    home
        The course's folder.
    words
        What the container runs after `dtlib`: `["train", "images", …]` or `["lessons", "run", …]`.
    name
        The Job's name, a DNS label.
    """
    nodes, lesson = args.nodes or 1, words[0] == "lessons"
    job = read(folder(home) / ("lesson.yaml" if lesson else "base/job.yaml"))
    made = [read(folder(home) / f"base/{part}.yaml") for part in ("settings", "volume")]
    spec = job["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    job["metadata"]["name"] = name
    container["image"] = args.image
    if args.time:
        spec["activeDeadlineSeconds"] = seconds(args.time)
    if lesson:
        container["args"] = ["dtlib", *words, f"--out=/course/runs/{name}"]
    else:
        service = read(folder(home) / "base/service.yaml")
        service["metadata"]["name"] = pod["subdomain"] = name
        service["spec"]["selector"] = {"batch.kubernetes.io/job-name": name}
        made.append(service)
        spec["completions"] = spec["parallelism"] = nodes
        container["args"] = [*container["args"][:3], *words, f"--out=/course/runs/{name}"]
        values = {
            "NODES": str(nodes),
            "RANKS_PER_NODE": str(args.gpus_per_node or RANKS),
            "MASTER_ADDR": f"{name}-0.{name}",
        }
        for entry in container["env"]:
            entry["value"] = values.get(entry["name"], entry["value"])
    if args.gpus_per_node:
        ask_for_gpus(pod, args.gpus_per_node)
    if args.cpus_per_task:
        container["resources"]["requests"]["cpu"] = str(args.cpus_per_task)
    return [*made, job]


def ask_for_gpus(pod: dict[str, Any], gpus: int) -> None:
    """Request GPUs for a pod, with their share of the node's processors and memory."""
    resources, memory = pod["containers"][0]["resources"], f"{GIB * gpus}Gi"
    resources["requests"] = {"cpu": str(CPUS * gpus), "memory": memory}
    resources["limits"] = {"memory": memory, GPU: str(gpus)}
    pod["volumes"][1]["emptyDir"]["sizeLimit"] = f"{SHARED_GIB * gpus}Gi"
    pod["tolerations"] = [TAINTED]


def read(path: Path) -> dict[str, Any]:
    """Return the one object of a manifest."""
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def seconds(time: str) -> int:
    """Return the seconds of a time limit in sbatch's form: minutes, [D-]H:M:S, M:S.

    Raises `BadInput` for anything else.
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if match is None:
        raise BadInput(f"--time {time} is no time limit; use minutes, or hours as 1:30:00.")
    days, *parts = match.groups()
    first, second, third = (int(part or 0) for part in parts)
    if days or parts[2]:  # D-H, D-H:M, D-H:M:S, H:M:S
        return ((int(days or 0) * 24 + first) * 60 + second) * 60 + third
    return first * 60 + second  # M, M:S


def submit(
    args: argparse.Namespace, home: Path, out: Path, words: Sequence[str], further: Sequence[str]
) -> int:
    """Write the manifest into the folder of the jobs, and apply it if kubectl reaches a cluster.

    Raises
    ------
    BadInput
        For a missing image, or options for sbatch, or what kubectl refuses.
    """
    if further:
        raise BadInput(f"{further[0]} is an option for sbatch, and Kubernetes has no sbatch.")
    if not args.image:
        raise BadInput(
            "Kubernetes pulls an image: add --image REGISTRY/dtlib:TAG, where you pushed it."
        )
    if not re.fullmatch(r"[\w./:@-]+", args.image):
        raise BadInput(f"--image {args.image!r} is no image's name; use REGISTRY/dtlib:TAG.")
    what = words[1] if words[0] == "train" else f"lesson {words[2]}"
    name = f"dtlib-{what.replace(' ', '-')}-{datetime.datetime.now():%m%d-%H%M%S}"
    writable_folder(out)
    path = out / f"{name}.yaml"
    while path.exists():  # two submissions within a second
        name += "-2"
        path = out / f"{name}.yaml"
    objects = render(args, home, words, name)
    write_atomically(path, yaml.safe_dump_all(objects, sort_keys=False, width=100))
    print(f"{path}: {what} on {counted(args.nodes or 1, 'node')}.")
    if not answers():
        apply = f"kubectl apply -f {shlex.quote(str(path))}"
        print(f"No cluster answers kubectl here; start it where one does: `{apply}`.")
        return 0
    done = run(["kubectl", "apply", "-f", str(path)], apart=True)
    if done.code != 0:
        said = (done.errors.strip() or "no message").splitlines()[-1]
        raise BadInput(f"kubectl refused the job: {said}.")
    print(f"`kubectl logs -f job/{name}` shows its log, `kubectl delete -f {path}` ends it.")
    return 0


def answers() -> bool:
    """Tell whether kubectl is here and reaches a cluster."""
    if shutil.which("kubectl") is None:
        return False
    return run(["kubectl", "version", "--request-timeout=5s"], apart=True).code == 0


def words_of_training(task: str, settings: Sequence[str], ranks: int) -> list[str]:
    """Return what runs after `dtlib` in a training, which resumes when its pods start again.

    Raises `BadInput` for an unknown task, or settings that `dtlib train` would refuse in the pods.
    """
    from dtlib.training import start

    refuse_unknown("lesson or task", task, ["a lesson's number", *CHOICES["task"]])
    parser = Parser(prog="dtlib train", argument_default=argparse.SUPPRESS)
    add_settings(parser, but=("out", "resume", "ranks"))
    flags = vars(parser.parse_args([task, *map(hyphens, settings)]))
    config = RunConfig.from_mapping({**flags, "ranks": ranks})
    refuse_without_effect(vars(config), flags)
    with contextlib.suppress(Unavailable):  # here; the pods have the image's packages and GPUs
        start.check(config)
    return ["train", task, *settings, "--resume"]
