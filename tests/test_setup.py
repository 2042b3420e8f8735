"""The set-up: what make offers, what the files promise each other, and the rules of the house."""

from __future__ import annotations

import ast
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

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text()
TARGETS = ["help", "lessons", "lab", "test", "test-slow", "notebooks", "book", "clean"]
SOURCES = sorted((ROOT / "dtlib").rglob("*.py"))


def make(*words: str, folder: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    # what an outer make was told on its command line reaches an inner one through the environment
    ours = ("VENV", "MAKEFLAGS", "MAKELEVEL", "PYTEST_FLAGS", "EXTRAS", "PIP_FLAGS", "PYTHON")
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

    code, asked, _ = made(clone, "test")
    assert (code, asked) == (0, ["-m pytest -n 2"])

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
    assert asked[-1] == "-m pytest -n 2"
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
    "system", "install", "ops", "lint", "drift", "lessons", "book", "bare", "spawn", "slurm",
    "test", "test-slow",
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
    assert re.search(r"^test +passed +\d+ s +7 passed in 1.0s$", end, re.M)
    for command in ("make test ", "make test-slow ", "make lessons", "make book"):
        assert any(line.startswith(command) for line in asked), command


def test_ci_goes_on_after_a_failure_and_names_it_last(ci):
    code, said, asked = run_ci(ci, failing="lint")
    assert code == 1
    assert said.rstrip().endswith("1 stage(s) failed: lint")
    assert any(line.startswith("make test ") for line in asked)


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
        "deepspeed", "lightning", "logging", "gpu", "pretrained", "book", "dev"
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


# --- the rules of the house ---------------------------------------------------------------------

HEAVY = [
    "torch",
    "torchvision",
    "transformers",
    "matplotlib",
    "deepspeed",
    "lightning",
    "papermill",
]


@pytest.mark.parametrize(
    "module", ["dtlib", "dtlib.cli", "dtlib.config", "dtlib.learn", "dtlib.lessons"]
)
def test_importing_loads_nothing_heavy(module):
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_imports_only_go_down():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed: pip install import-linter")
    done = subprocess.run([linter], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_over_300_lines_and_no_function_over_40(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    too_long = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first, lines = node.body[0], (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (first.end_lineno or 0) - first.lineno + 1
            if lines > 40:
                too_long.append(f"{node.name}: {lines}")
    assert not too_long


def tracked() -> list[Path]:
    """The files of the project: what git knows, or would know."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_nothing_names_one_machine():
    """No absolute path of somebody's folders, and no notes of somebody's tools."""
    personal = re.compile(r"(?<![\w.])/(?:home(?!/student)|Users|work|workspace|root|farm)/\w+")
    found = []
    for path in tracked():
        if path.suffix in (".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".ipynb", ".sh", ""):
            for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1):
                if personal.search(line) and path.name != "test_setup.py":
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


# --- README -------------------------------------------------------------------------------------


def test_every_make_command_of_the_readme_exists():
    pages = README + (ROOT / "CONTRIBUTING.md").read_text()
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"^(?:\$ )?make ([a-z-]+)", pages, re.M))
    named |= set(re.findall(r"`make ([a-z-]+)", pages))
    assert {"lab", "lessons", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_the_lesson_table_of_the_readme_is_what_is_there():
    rows = re.findall(
        r"^\| \[(\d\d)\]\(([^)]+)\) \| ([^|]+?) \| [^|]+ \| (\d+) \| ([^|]+?) \|$", README, re.M
    )
    listed = {
        number: (link, title, int(minutes), needs) for number, link, title, minutes, needs in rows
    }
    from dtlib.learn.source import lessons

    there = {}
    for lesson in lessons(ROOT / "lessons_src"):
        header = lesson.header
        minutes = header["minutes"]["read"] + header["minutes"]["exercises"]
        link = f"notebooks/student/{lesson.stem}.ipynb"
        there[lesson.number] = (link, header["title"], minutes, ", ".join(header["needs"]))
    assert listed == there


def test_links_of_the_pages_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "book/architecture.md"):
        text = (ROOT / page).read_text()
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in link:
                assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def test_no_source_is_ignored_by_git():
    """A pattern such as `batch/` also hides a package of that name: it would never be committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    asked = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "dtlib", "tests"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in found.splitlines() if path.endswith((".py", ".sh", ".yaml"))] == []
