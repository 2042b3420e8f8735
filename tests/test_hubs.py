"""The files that a dev container and Binder read: they parse, and what they name is there."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PYTHON = SpecifierSet(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
)
CPU = "--extra-index-url https://download.pytorch.org/whl/cpu"


def test_the_dev_container_makes_the_course_s_own_environment():
    made = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    assert PYTHON.contains(re.search(r"python:(3\.\d+)", made["image"])[1])
    assert CPU in made["postCreateCommand"]
    asked = subprocess.run(
        f"{made['postCreateCommand']} --dry-run VENV=build/none", shell=True, cwd=ROOT,
        capture_output=True, text=True,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    settings = made["customizations"]["vscode"]["settings"]
    assert settings["python.defaultInterpreterPath"].endswith("/.venv/bin/python")


def test_binder_installs_this_package_with_the_tested_versions():
    lines = (ROOT / "binder/requirements.txt").read_text().splitlines()
    options = dict(line.split(maxsplit=1) for line in lines if line.startswith("--"))
    assert options["--extra-index-url"] == CPU.split()[1]
    # pip reads a constraint beside the file, and an editable package in the current folder.
    assert (ROOT / "binder" / options["--constraint"]).resolve() == ROOT / "constraints.txt"
    assert options["--editable"] == "."
    version = (ROOT / "binder/runtime.txt").read_text().strip().removeprefix("python-")
    assert PYTHON.contains(version)


def test_the_page_names_the_files_and_says_what_was_not_tried():
    page = (ROOT / "book/instructor/hubs.md").read_text()
    for name in (".devcontainer/devcontainer.json", "binder/"):
        assert f"`{name}`" in page and (ROOT / name).exists()
    assert "not tried" in page
