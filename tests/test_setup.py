"""The set-up: what make offers, what the files promise each other, and the rules of the house."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from book import durations

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
TARGETS = [
    "help", "lessons", "lab", "test", "test-slow", "notebooks", "book", "wheelhouse", "clean"
]  # fmt: skip
SOURCES = sorted((ROOT / "dtlib").rglob("*.py"))


def make(*words: str, folder: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    # what an outer make was told on its command line reaches an inner one through the environment
    ours = (
        "VENV", "MAKEFLAGS", "MAKELEVEL", "PYTEST_FLAGS", "PYTEST_JOBS", "LESSON", "EXTRAS",
        "PIP_FLAGS", "PYTHON",
    )  # fmt: skip
    clean = {k: v for k, v in os.environ.items() if k not in ours}
    return subprocess.run(
        ["make", *words], cwd=folder, env=clean | env, capture_output=True, text=True, timeout=60
    )


# --- make ---------------------------------------------------------------------------------------


def test_make_alone_lists_every_target():
    listed = make().stdout
    assert listed == make("help").stdout
    for target in TARGETS:
        assert re.search(rf"^  {target} +\S", listed, re.M), target


def test_every_listed_target_can_be_made():
    for target in re.findall(r"^  ([a-z-]+)  ", make().stdout, re.M):
        assert make("--dry-run", target, f"VENV={sys.prefix}").returncode == 0, target


FAKE_PYTHON = """#!/bin/sh
# Makes an environment that holds itself, and notes what it was asked.
echo "$*" >> "$LOG"
case "$*" in
  *"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
  *"pip install"*) exit "${PIP_EXIT:-0}" ;;
  *"version_info"*) exit "${TOO_OLD:-0}" ;;
  "--version") echo "Python 3.13.9" ;;
esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the files that make the environment, and a Python that installs nothing."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "bin" / "python3.13"
    python.parent.mkdir()
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    return tmp_path


def made(clone: Path, *words: str, **env: str) -> tuple[int, list[str], str]:
    """Exit code, what the fake Python was asked, and what was printed."""
    log = clone / "log"
    log.write_text("")
    # Only the fake Python may be found: a real one would install for minutes.
    path = f"{clone / 'bin'}:{clone / 'tools'}"
    (clone / "tools").mkdir(exist_ok=True)
    for tool in ("sh", "sed", "touch", "id", "mkdir", "cp", "make"):
        link = clone / "tools" / tool
        if not link.exists():
            link.symlink_to(shutil.which(tool) or pytest.skip(f"no {tool}"))
    done = make(*words, folder=clone, PATH=path, LOG=str(log), **env)
    return done.returncode, log.read_text().splitlines(), done.stdout + done.stderr


def test_the_environment_is_made_once_and_redone_when_dependency_files_change(clone):
    code, asked, _ = made(clone, "test")
    assert code == 0
    assert any("-m venv" in line for line in asked)
    assert any("pip install" in line and "-c constraints.txt" in line for line in asked)
    assert not any("--upgrade-deps" in line for line in asked)  # it asks an index for pip

    code, asked, _ = made(clone, "test")
    assert (code, asked) == (0, ["-m pytest -n 4"])

    for name in ("pyproject.toml", "constraints.txt"):
        later = (clone / ".venv" / ".dtlib-installed").stat().st_mtime + 2
        os.utime(clone / name, (later, later))
        code, asked, _ = made(clone, "test")
        assert code == 0
        assert any("pip install" in line for line in asked)
        assert not any("-m venv" in line for line in asked)
        os.utime(clone / ".venv" / ".dtlib-installed", (later + 2, later + 2))


def test_an_install_that_failed_is_tried_again(clone):
    code, _, said = made(clone, "test", PIP_EXIT="1")
    assert code != 0
    assert "pip could not install" in said
    assert not (clone / ".venv" / ".dtlib-installed").exists()
    code, asked, _ = made(clone, "test")
    assert code == 0
    assert any("pip install" in line for line in asked)


def test_a_folder_of_wheels_is_all_that_pip_is_told_of(clone):
    flags = "--no-index --find-links wheels"
    code, asked, _ = made(clone, "env", f"PIP_FLAGS={flags}")
    installs = [line for line in asked if "pip install" in line]
    assert code == 0
    assert len(installs) == 2 and "--upgrade pip" in installs[0]
    assert all(flags in line for line in installs)


def test_the_wheelhouse_is_asked_for_all_that_make_installs(clone):
    flags = "--extra-index-url https://example.org"
    code, asked, _ = made(clone, "wheelhouse", f"PIP_FLAGS={flags}")
    extras = re.search(r"^EXTRAS \?= (\S+)$", (ROOT / "Makefile").read_text(), re.M)[1]
    assert code == 0
    assert asked[-1] == f"book/wheelhouse.py --extras {extras} --pip-flags={flags}"
    assert not any("pip install" in line and "-e" in line.split() for line in asked)
    page = (ROOT / "book/set_up.md").read_text()
    assert "make wheelhouse" in page and 'PIP_FLAGS="--no-index --find-links wheels"' in page


def test_a_python_that_is_too_old_is_told_in_one_sentence(clone):
    code, asked, said = made(clone, "test", TOO_OLD="1")
    assert code != 0
    assert "The course needs Python 3.11 or newer" in said
    assert not any("-m venv" in line for line in asked)


def test_a_named_environment_is_used_and_never_changed(clone):
    (clone / "mine" / "bin").mkdir(parents=True)
    shutil.copy(clone / "bin" / "python3.13", clone / "mine" / "bin" / "python")
    code, asked, _ = made(clone, "test", "VENV=mine")
    assert code == 0
    assert asked[-1] == "-m pytest -n 4"
    assert not any("install" in line or "venv" in line for line in asked)
    assert not (clone / ".venv").exists()


def test_a_named_environment_that_is_not_there_is_refused_and_not_made(clone):
    for words in (["test"], ["install"]):
        code, asked, said = made(clone, *words, "VENV=nowhere")
        assert code != 0
        assert "There is no nowhere/bin/python" in said
        assert asked == []
        assert not (clone / "nowhere").exists()


# --- continuous integration ---------------------------------------------------------------------

STAGES = {
    "system", "install", "ops", "lint", "drift", "lessons", "book", "slides", "bare", "spawn",
    "slurm", "test", "test-slow",
}  # fmt: skip


@pytest.fixture
def ci(clone: Path) -> Path:
    """A clone in which every command of .ci/run is a fake that notes its words and passes."""
    if shutil.which("bash") is None or shutil.which("timeout") is None:
        pytest.skip(".ci/run needs bash and timeout")
    (clone / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", clone / ".ci" / "run")
    fake = '#!/bin/sh\necho "${0##*/} $*" >> "$LOG"\ncase "$*" in $FAILING) exit 3 ;; esac\n'
    for name in ("bin/make", "bin/git", "bin/apt-get", "venv/bin/python", "venv/bin/lint-imports"):
        path = clone / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fake + "echo '7 passed in 1.0s'\n")
        path.chmod(0o755)
    return clone


def run_ci(clone: Path, failing: str = "nothing") -> tuple[int, str, list[str]]:
    log = clone / "log"
    log.write_text("")
    env = {"PATH": f"{clone / 'bin'}:/usr/bin:/bin", "LOG": str(log), "FAILING": failing}
    done = subprocess.run(
        [clone / ".ci" / "run"],
        env=env | {"VENV": str(clone / "venv")}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, log.read_text().splitlines()


def test_ci_runs_every_stage_and_ends_with_the_lines_of_pytest(ci):
    code, said, asked = run_ci(ci)
    assert code == 0, said
    end = said[said.rindex("=== test-slow:") :]
    assert set(re.findall(r"^([a-z-]+) +passed +\d+ s", end, re.M)) == STAGES
    assert re.search(r"^test +passed +\d+ s +\d+ CPU-s +7 passed in 1.0s$", end, re.M)
    for command in ("make test ", "make test-slow ", "make lessons", "make book"):
        assert any(line.startswith(command) for line in asked), command


def test_ci_goes_on_after_a_failure_and_names_it_last(ci):
    code, said, asked = run_ci(ci, failing="lint")
    assert code == 1
    assert said.rstrip().endswith("1 stage(s) failed: lint")
    assert any(line.startswith("make test ") for line in asked)


# --- the way in ---------------------------------------------------------------------------------

PAGES = ["README.md", "CONTRIBUTING.md", "book/index.md", "book/set_up.md"]


def test_every_page_clones_the_course_from_the_address_of_the_project():
    for page in PAGES:
        cloned = re.findall(r"^git clone ([^\s`,]+)", (ROOT / page).read_text(), re.M)
        assert cloned == [PROJECT["urls"]["Repository"]], page


def test_no_page_tells_a_duration_of_make_by_hand():
    for page in [*PAGES, "Makefile"]:
        text = re.sub(
            r"<!-- lessons: \w+ -->.*?<!-- lessons: end -->",
            "",
            (ROOT / page).read_text(),
            flags=re.S,
        )
        for line in text.splitlines():
            if re.search(r"\bmake\b", line):
                assert not re.search(r"\b(\d+|two|five|ten) (min\b|minutes)", line), (page, line)


def test_the_help_of_make_and_the_pages_have_the_seconds_that_ci_measured():
    text = (ROOT / "book/durations.yaml").read_text()
    told = yaml.safe_load(text)["commands"]
    minutes = round(told["env"]["seconds"] / 60)
    assert f".venv: {minutes} minute{'s'[minutes == 1 :]} here" in make().stdout
    assert set(told) <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))

    summary = "install    passed  301 s   x\ntest       FAILED  9 s   1 failed\nlint passed 7 s x\n"
    new = yaml.safe_load(durations.taken(text, summary, "abc"))["commands"]
    assert new == told | {"env": told["env"] | {"seconds": 301, "at": "abc"}}


# --- versions -----------------------------------------------------------------------------------


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(r) for r in [*PROJECT["dependencies"], *(r for e in extras for r in e)]]


def test_tested_versions_lie_in_the_ranges():
    tested = constraints()
    for requirement in requirements():
        version = tested.get(canonicalize_name(requirement.name))
        if version is not None:
            assert requirement.specifier.contains(version), requirement
    assert (tested["torch"], tested["torchvision"]) == ("2.14.1", "0.29.1")


def test_every_package_that_make_installs_has_a_tested_version():
    extras = PROJECT["optional-dependencies"]
    of_make = re.search(r"^EXTRAS \?= (\S+)$", (ROOT / "Makefile").read_text(), re.M)[1].split(",")
    assert f".[{','.join(of_make)}]" in (ROOT / "environment.yml").read_text()
    installed = PROJECT["dependencies"] + [r for extra in of_make for r in extras[extra]]
    missing = {canonicalize_name(Requirement(r).name) for r in installed} - set(constraints())
    assert not missing


def test_the_extras_are_those_of_the_design():
    extras = PROJECT["optional-dependencies"]
    assert set(extras) == {
        "deepspeed", "lightning", "logging", "gpu", "lora", "pretrained", "workshop", "book", "dev",
        "s3", "clinic",
    }  # fmt: skip
    marker = Requirement(extras["deepspeed"][0]).marker
    assert marker is not None
    assert marker.evaluate({"sys_platform": "linux"})
    assert not marker.evaluate({"sys_platform": "darwin"})


def test_torch_is_allowed_from_2_11():
    torch = next(r for r in requirements() if r.name == "torch")
    assert torch.specifier.contains("2.11.0")
    assert not torch.specifier.contains("2.10.0")
    assert PROJECT["requires-python"] == ">=3.11"


def test_conda_installs_the_package_itself():
    parts = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    by_pip = next(part["pip"] for part in parts if isinstance(part, dict))
    assert any(line.startswith("--editable .[") for line in by_pip)
    assert "--constraint constraints.txt" in by_pip
    assert [part for part in parts if isinstance(part, str)] == ["python>=3.11,<3.14", "pip"]
