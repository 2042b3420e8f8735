"""The container files, as far as they can be checked with no engine: what they name is there, they
agree with each other and with the project, and their steps run in a plain shell."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from processes import run

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
DEFINITION = (ROOT / "docker/apptainer.def").read_text()
WRAPPER = ROOT / "docker/apptainer-python"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile as (instruction, words), continued lines joined and arguments filled in."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.split(maxsplit=1) for line in whole.splitlines() if line.strip()]
    values = dict(words.split("=", 1) for kind, words in pairs if kind == "ARG" and "=" in words)
    fill = {f"${{{name}}}": value for name, value in values.items()}
    for name, value in fill.items():
        pairs = [[kind, words.replace(name, value)] for kind, words in pairs]
    return [(kind, words) for kind, words in pairs]


def stages() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, words in instructions():
        if kind == "FROM":
            image, name = re.fullmatch(r"(\S+) AS (\S+)", words).groups()  # type: ignore[union-attr]
            found[name] = [("FROM", image)]
        elif found:
            found[name].append((kind, words))
    return found


def section(name: str) -> str:
    """A section of the Apptainer definition."""
    return re.search(rf"^%{name}\n(.*?)(?=^%|\Z)", DEFINITION, re.M | re.S)[1]  # type: ignore[index]


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps a path of the project out of the image."""
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [rule for rule in rules if rule and not rule.startswith("#")]
    parts = path.split("/")
    above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(place, rule) or fnmatch.fnmatch(place, rule.removeprefix("**/"))
        for rule in rules
        for place in above
    )


def tracked() -> list[str]:
    done = run("git", "ls-files", cwd=ROOT)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return done.stdout.splitlines()


# --- what the files say -------------------------------------------------------------------------


def test_two_stages_on_one_pinned_image_and_no_root_in_the_last():
    found = stages()
    assert list(found) == ["build", "course"]
    images = {steps[0][1] for steps in found.values()}
    assert images == {re.search(r"^From: (\S+)", DEFINITION, re.M)[1]}  # Apptainer's is the same
    assert re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-devel-ubuntu\d+\.\d+", images.pop())
    users = [words for kind, words in found["course"] if kind == "USER"]
    assert users == ["1000:1000"]
    after = found["course"][[kind for kind, _ in found["course"]].index("USER") :]
    assert {"COPY", "ADD"}.isdisjoint(kind for kind, _ in after)


def test_cuda_is_that_of_the_tested_torch():
    import importlib.util

    torch = Path(importlib.util.find_spec("torch").origin)  # type: ignore[union-attr, arg-type]
    facts = dict(
        re.findall(r"^(\w+).* = '([^']+)'", (torch.parent / "version.py").read_text(), re.M)
    )
    if "cuda" not in facts:
        pytest.skip("this torch has no CUDA")
    tested = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M)[1]
    if facts["__version__"].split("+")[0] != tested:
        pytest.skip(f"this torch is not {tested}")
    assert stages()["build"][0][1].startswith(f"nvidia/cuda:{facts['cuda']}.")


def test_whatever_is_copied_is_there_and_nothing_of_the_project_is_left_out():
    for name, steps in stages().items():
        for words in (words for kind, words in steps if kind == "COPY"):
            flags = [word for word in words.split() if word.startswith("--")]
            *sources, _ = [word for word in words.split() if not word.startswith("--")]
            (stage,) = [f.partition("=")[2] for f in flags if f.startswith("--from=")] or [None]
            assert stage is None or (stage in stages() and stage != name)
            assert stage or all((ROOT / source).exists() for source in sources), words
    for line in section("files").split("\n"):
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists() and target == f"/course/{source}"
    assert [path for path in tracked() if ignored(path)] == []
    for path in (".git/config", ".venv/bin/python", "build/x", "runs/a/b", "slurm/site.env",
                 "dtlib/__pycache__/cli.pyc", "notebooks/student/kept/a.ipynb"):  # fmt: skip
        assert ignored(path), path


def test_the_extras_and_system_packages_are_the_same_in_both():
    extras = re.search(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.M)[1]
    assert f"EXTRAS={extras} " in section("post")
    pyproject = (ROOT / "pyproject.toml").read_text()
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", pyproject, re.M), extra
    install = r"install --yes --no-install-recommends \\\s+(.+)"
    first, last = (set(words.split()) - {"\\"} for words in re.findall(install, DOCKERFILE))
    assert set(re.search(install, section("post"))[1].split()) == first
    assert first - last == {"python3-venv"} and last - first == {"tini"}


def test_the_command_is_a_target_of_make_that_hears_its_flags():
    course = dict(stages()["course"])
    assert json.loads(course["ENTRYPOINT"]) == ["tini", "-g", "--"]
    command = json.loads(course["CMD"])
    assert command[:2] == ["make", "lab"]
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")}
    words = ["make", "--dry-run", *command[1:], f"VENV={sys.prefix}"]
    shown = run(*words, cwd=ROOT, env=env)
    assert "--ip=0.0.0.0 --no-browser" in shown.stdout


def test_the_shell_of_the_definition_is_sound():
    sections = re.findall(r"^%(\w+)$", DEFINITION, re.M)
    assert sections == ["labels", "files", "post", "environment", "test", "runscript", "help"]
    for name in ("post", "environment", "test", "runscript"):
        assert run("sh", "-n", text=section(name)).returncode == 0, name
    command = section("environment") + '\necho "$PATH $VENV"'
    shown = run("sh", "-c", command, env={"PATH": "/bin"})
    assert shown.stdout == "/opt/venv/bin:/bin /opt/venv\n"


@pytest.mark.parametrize(
    ("tool", "file"),
    [
        ("hadolint", ROOT / "docker/Dockerfile"),
        ("hadolint", ROOT / "docker/kubernetes/mpi.Dockerfile"),
        ("shellcheck", WRAPPER),
    ],
)
def test_the_linters_have_nothing_to_say(tool, file):
    path = shutil.which(tool, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"there is no {tool} here")
    done = run(path, file)
    assert done.returncode == 0, done.stdout + done.stderr


# --- what their steps do ------------------------------------------------------------------------


def test_the_python_of_the_container_sees_the_folders_that_jobs_need(tmp_path):
    fake = tmp_path / "apptainer"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "DTLIB_BATCH_OUT": "/scratch/my jobs"}
    done = run(WRAPPER, "-m", "dtlib", env=env)
    assert done.returncode != 0 and "set DTLIB_IMAGE to the .sif file" in done.stderr
    env["DTLIB_IMAGE"] = "/shared/dtlib.sif"
    done = run(WRAPPER, "-m", "dtlib", env=env)
    assert done.stdout.splitlines() == [
        "exec", "--nv", "--bind", str(ROOT), "--bind", "/scratch/my jobs", "/shared/dtlib.sif",
        "/opt/venv/bin/python", "-m", "dtlib",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_steps_run_in_a_plain_shell(tmp_path):
    """COPY and RUN of both stages, but for apt and users: pip installs the package without its
    dependencies, for which this environment stands in."""
    course, venv = tmp_path / "course", tmp_path / "venv"
    build, last = stages()["build"], stages()["course"]
    copy(next(words for kind, words in build if kind == "COPY" and "Makefile" in words), course)
    copy(next(words for kind, words in build if kind == "COPY" and "__init__" in words), course)
    assert len(list(course.rglob("*.py"))) == 1
    step = next(words for kind, words in build if kind == "RUN" and "make install" in words)
    shell(step.replace("--no-cache-dir", "--no-deps"), course, venv, EXTRAS="dev")
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "stand-in.pth").write_text(sysconfig.get_path("purelib") + "\n")

    for path in tracked():
        if (ROOT / path).is_file():  # what is in this commit's tree
            (course / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, course / path)
    step = next(words for kind, words in last if kind == "RUN" and "make notebooks" in words)
    said = shell(step, course, venv, PATH=f"{venv}/bin:{os.environ['PATH']}", VENV=str(venv))
    assert said.splitlines()[-1].startswith("dtlib ")
    where = shell("python -c 'import dtlib; print(dtlib.__file__)'", tmp_path, venv,
                  PATH=f"{venv}/bin:{os.environ['PATH']}")  # fmt: skip
    assert where.strip() == str(course / "dtlib/__init__.py")


def copy(words: str, course: Path) -> None:
    *sources, target = words.split()
    (course / target).mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copy(ROOT / source, course / target)


def shell(step: str, folder: Path, venv: Path, **env: str) -> str:
    usual = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MAKEFLAGS", "VENV")}
    step = step.replace("/opt/venv", shlex.quote(str(venv)))
    done = run("sh", "-c", step, cwd=folder, env=usual | env, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
