"""The manifests of `docker/kubernetes/`, by the checkers that exist without a cluster, and
`dtlib batch submit --on kubernetes`, with a program in kubectl's place."""

import copy
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob
from processes import run

from dtlib.cli import main

HERE = Path(__file__).resolve().parents[2] / "docker" / "kubernetes"
VERSION = "1.37"
SCHEMA = yaml.safe_load((HERE / "schemas/operators.yaml").read_text())
OVERLAYS = sorted(path.name for path in (HERE / "overlays").iterdir())
KUBECTL = """#!/bin/bash
echo "$@" >>"$HERE/calls"
[ "$1" != version ] || exit "$NO_CLUSTER"
[ -z "$REFUSE" ] || { echo "error: $REFUSE" >&2; exit 1; }
"""


def objects(path: Path):
    return list(yaml.safe_load_all(path.read_text()))


def everything(base=HERE):
    paths = [*base.glob("*.yaml"), *base.glob("base/*.yaml"), *base.glob("operators/*.yaml")]
    return [
        one for path in sorted(paths) for one in objects(path) if one["kind"] != "Kustomization"
    ]


def check(thing):
    """Refuse an object that Kubernetes, or the operator that it is for, would not know."""
    kind = thing["kind"]
    if kind == "TrainJob":
        model = TrainerV1alpha1TrainJob.from_dict(thing)
        assert not [*lost(thing, model.to_dict())]
    elif kind in SCHEMA["$defs"]:
        jsonschema.validate(thing, {**SCHEMA, "oneOf": [{"$ref": f"#/$defs/{kind}"}]})
    else:
        kubernetes_validate.validate(thing, VERSION, strict=True)
    for template in templates(thing.get("spec", {})):
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
        kubernetes_validate.validate(pod, VERSION, strict=True)


def templates(spec):
    """The templates of pods in an operator's object."""
    replicas = spec.get("pytorchReplicaSpecs") or spec.get("mpiReplicaSpecs") or {}
    return [one["template"] for one in replicas.values()]


def lost(given, kept, place=""):
    """Yield the fields that a model did not know, and so dropped."""
    if isinstance(given, dict):
        for key in given:
            if key in kept:
                yield from lost(given[key], kept[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}"
    elif isinstance(given, list):
        for number, pair in enumerate(zip(given, kept, strict=True)):
            yield from lost(*pair, f"{place}[{number}]")


def pods(thing):
    """The pod specifications of an object."""
    if thing["kind"] == "Job":
        return [thing["spec"]["template"]["spec"]]
    return [one["spec"] for one in templates(thing.get("spec", {}))]


def test_every_manifest_is_known_to_its_checker():
    kinds = {thing["kind"] for thing in everything()}
    assert kinds == {
        "ConfigMap", "PersistentVolumeClaim", "Service", "Job", "TrainJob", "PyTorchJob", "MPIJob",
        "ResourceFlavor", "ClusterQueue", "LocalQueue",
    }  # fmt: skip
    for thing in everything():
        check(thing)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("ConfigMap", "data/NCCL_DEBUG", 1),
        ("PersistentVolumeClaim", "spec/accessModes", "ReadWriteMany"),
        ("Service", "spec/publishNotReadyAddress", True),
        ("Job", "spec/completions", "two"),
        ("Job", "spec/template/spec/containers/0/resourcez", {}),
        ("TrainJob", "spec/trainer/nodes", 2),
        ("TrainJob", "spec/runtimePatches/0/template", {}),
        ("PyTorchJob", "spec/nprocPerNode", 8),
        ("PyTorchJob", "spec/pytorchReplicaSpecs/Worker/template/spec/container", []),
        ("MPIJob", "spec/mpiReplicaSpecs/Workers", {"template": {}}),
        ("MPIJob", "spec/mpiReplicaSpecs/Worker/template/spec/containers/0/image", 1),
        ("ResourceFlavor", "spec/labels", {}),
        ("ClusterQueue", "spec/resourceGroups/0/flavors/0/resources/0/quota", "4"),
        ("LocalQueue", "spec/clusterQueue", None),
    ],
)
def test_each_checker_refuses_a_broken_copy(kind, path, value):
    thing = copy.deepcopy(next(one for one in everything() if one["kind"] == kind))
    *above, last = path.split("/")
    place = thing
    for key in above:
        place = place[int(key) if key.isdecimal() else key]
    place[last] = value
    with pytest.raises(Exception, match=r"."):
        check(thing)


def test_no_pod_runs_as_root_and_all_keep_what_they_write():
    for thing in everything():
        for pod in pods(thing):
            assert pod["securityContext"]["runAsNonRoot"] is True
            mounts = [m["mountPath"] for c in pod["containers"] for m in c.get("volumeMounts", [])]
            launcher = pod["containers"][0]["name"] == "launcher"
            assert launcher or mounts == ["/course/runs", "/dev/shm"]
            assert {v["name"] for v in pod.get("volumes", [])} == {
                m["name"] for c in pod["containers"] for m in c.get("volumeMounts", [])
            }


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kustomize comes with kubectl")
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_overlays_change_what_they_say(overlay):
    done = run("kubectl", "kustomize", str(HERE / "overlays" / overlay))
    assert done.returncode == 0, done.stderr
    made = {thing["kind"]: thing for thing in yaml.safe_load_all(done.stdout)}
    for thing in made.values():
        check(thing)
    job = made["Job"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.org/dtlib:1"
    ranks = {one["name"]: one["value"] for one in container["env"]}["RANKS_PER_NODE"]
    gpus = container["resources"]["limits"].get("nvidia.com/gpu")
    assert (ranks, gpus) == (("2", None) if overlay == "laptop" else ("8", "8"))
    queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
    waits = (queue, job["spec"].get("suspend", False))
    assert waits == (("training", True) if overlay == "queue" else (None, False))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a script in kubectl's place, which reaches a cluster."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name, value in (("HERE", str(tmp_path)), ("NO_CLUSTER", "0"), ("REFUSE", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DTLIB_BATCH_OUT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SUBMIT = ["batch", "submit", "images", "--on", "kubernetes", "--image", "r/dtlib:2"]


def test_a_training_is_written_and_handed_to_kubectl(place, capsys):
    words = "--nodes 3 --gpus-per-node 4 --time 1-2:30 --lr 0.1 --global-batch 96"
    assert main([*SUBMIT, *words.split()]) == 0
    [path] = (place / "batch").glob("*.yaml")
    assert (place / "calls").read_text().splitlines()[-1] == f"apply -f {path}"
    assert "images on 3 nodes" in capsys.readouterr().out
    made = {thing["kind"]: thing for thing in objects(path)}
    for thing in made.values():
        check(thing)
    job, name = made["Job"]["spec"], path.stem
    pod = job["template"]["spec"]
    assert (job["completions"], job["parallelism"], pod["subdomain"]) == (3, 3, name)
    assert job["activeDeadlineSeconds"] == (24 + 2) * 3600 + 30 * 60
    assert made["Service"]["metadata"]["name"] == name
    assert made["Service"]["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    [container] = pod["containers"]
    assert container["resources"]["limits"] == {"memory": "128Gi", "nvidia.com/gpu": "4"}
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "NODES": "3", "RANKS_PER_NODE": "4", "MASTER_ADDR": f"{name}-0.{name}",
        "MASTER_PORT": "29500",
    }  # fmt: skip
    out = f"--out=/course/runs/{name}"
    settings = ["--lr", "0.1", "--global-batch", "96"]
    assert container["args"][3:] == ["train", "images", *settings, "--resume", out]


def test_a_lesson_runs_in_one_pod(place, capsys):
    words = ["batch", "submit", "09", "--on", "kubernetes", "--image", "r/dtlib:2"]
    assert main([*words, "-p", "steps=3"]) == 0
    [path] = (place / "batch").glob("*.yaml")
    made = {thing["kind"]: thing for thing in objects(path)}
    assert sorted(made) == ["ConfigMap", "Job", "PersistentVolumeClaim"]
    args = made["Job"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert args[:6] == ["dtlib", "lessons", "run", "09", "--kind", "student"]
    assert {"-p", "steps=3", "--jobs=1"} < set(args)


def test_two_submissions_in_a_second_keep_both(place, capsys):
    for _ in range(3):
        assert main(SUBMIT) == 0
    assert len([*(place / "batch").glob("*.yaml")]) == 3


def test_without_a_cluster_the_file_is_kept(place, monkeypatch, capsys):
    monkeypatch.setenv("NO_CLUSTER", "1")
    assert main(SUBMIT) == 0
    [path] = (place / "batch").glob("*.yaml")
    assert f"kubectl apply -f {path}" in capsys.readouterr().out
    assert "apply" not in (place / "calls").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("images", "add --image"),
        ("images --image r --stepz 3", "Did you mean '--steps'?"),
        ("images --image r --steps three", "three"),
        ("imags --image r", "Did you mean 'images'?"),
        ("images --image r -p steps=3", "belong to lessons"),
        ("09 --image r --nodes 2", "one pod"),
        ("images --image r --strategy tensor", "a ResNet has none that is cut"),
        ("text --image r --gpus-per-node 2 --strategy tensor --mesh data=2,tensor=2", "2 × 2 = 4"),
        ("images --image a|b", "is no image's name"),
        ("images --image r --time soon", "soon is no time limit"),
        ("images --image r -- --exclusive", "Kubernetes has no sbatch"),
        ("images --image r --nodes 0", "at least 1"),
    ],
)
def test_bad_input_writes_nothing(place, words, says, capsys):
    assert main(["batch", "submit", "--on", "kubernetes", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not list(place.glob("batch/*.yaml"))


def test_what_kubectl_refuses_is_said_in_its_words(place, monkeypatch, capsys):
    monkeypatch.setenv("REFUSE", "namespace is full")
    assert main(SUBMIT) == 2
    assert "kubectl refused the job: error: namespace is full." in capsys.readouterr().err


@pytest.mark.slow
def test_the_pods_of_a_job_train_together(place):
    """The container's own words, run here as two pods would, with the settings of the manifest."""
    [container] = objects(HERE / "base/job.yaml")[0]["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: str(one["value"]) for one in container["env"]}
    told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517", "RANKS_PER_NODE": "1"}
    told |= objects(HERE / "base/settings.yaml")[0]["data"] | {"PYTHONPATH": str(HERE.parents[1])}
    del told["GLOO_SOCKET_IFNAME"]  # a pod's interface
    out = place / "run"
    settings = ["--steps=2", "--num-samples=64", "--global-batch=16", "--timeout=60"]
    words = [*container["args"][:3], "train", "images", *settings, "--resume", f"--out={out}"]

    def pod(index):
        return run(*words, env={**os.environ, **told, "JOB_COMPLETION_INDEX": str(index)})

    with ThreadPoolExecutor() as both:
        done = list(both.map(pod, range(2)))
    assert [one.returncode for one in done] == [0, 0], "\n".join(one.stderr for one in done)
    assert json.loads((out / "summary.json").read_text())["world_size"] == 2
