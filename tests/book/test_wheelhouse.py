"""The folder for a USB stick, with a small stand-in for the course: it installs from it alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import run

from book import wheelhouse

PROJECT = """
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "tiny"
version = "1.0"
[project.optional-dependencies]
more = ["helper"]
[tool.setuptools]
py-modules = ["tiny"]
"""


def stand_in(folder: Path, name: str, version: str = "99.0") -> None:
    """A wheel of a module that says its name."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"NAME = {name!r}\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project under git with a file of its user's, and an index that has what it needs."""
    root = tmp_path / "tiny"
    (root / "pages").mkdir(parents=True)
    for name, text in {"pyproject.toml": PROJECT, "constraints.txt": "helper==99.0\n",
                       "tiny.py": "import helper\n", "pages/one.md": "hello",
                       "gone.py": "", "my_runs.csv": "mine"}.items():  # fmt: skip
        (root / name).write_text(text)
    for words in (["init", "-q"], ["add", "pyproject.toml", "constraints.txt", "tiny.py", "pages",
                                   "gone.py"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=root, check=True)
    subprocess.run(["git", "rm", "-q", "--cached", "gone.py"], cwd=root, check=True)
    (root / "pages/one.md").write_text("hello, solved")  # as in a notebook that somebody worked in
    for name in ("pip", "setuptools", "helper"):
        stand_in(tmp_path / "index", name)
    monkeypatch.setattr(wheelhouse, "ROOT", root)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return root


def fill(tiny: Path, monkeypatch: pytest.MonkeyPatch, extras: str = "more") -> tuple[int, Path]:
    out = tiny.parent / "stick"
    # The stand-in's own wheel is built by this environment's setuptools.
    flags = f"--no-index --find-links '{tiny.parent / 'index'}' --no-build-isolation"
    words = ["wheelhouse", "--out", str(out), "--extras", extras, "--pip-flags", flags]
    monkeypatch.setattr(sys, "argv", words)
    return wheelhouse.main(), out


def test_a_stick_has_all_that_an_empty_environment_needs(tiny, monkeypatch, capsys):
    code, out = fill(tiny, monkeypatch)
    assert code == 0
    names = sorted(path.name.split("-")[0] for path in (out / "wheels").iterdir())
    assert names == ["helper", "pip", "setuptools", "tiny"]
    copied = sorted(str(p.relative_to(out / "course")) for p in (out / "course").rglob("*.*"))
    assert copied == ["constraints.txt", "pages/one.md", "pyproject.toml", "tiny.py"]
    assert (out / "course/pages/one.md").read_text() == "hello"
    venv = tiny.parent / "venv"
    assert run(sys.executable, "-m", "venv", "--without-pip", venv).returncode == 0
    installed = run(
        sys.executable, "-m", "pip", "--python", venv, "install", "--no-index",
        "--find-links", out / "wheels", "tiny[more]",
    )  # fmt: skip
    assert installed.returncode == 0, installed.stdout + installed.stderr
    done = run(venv / "bin/python", "-c", "import tiny; print(tiny.helper.NAME)", cwd=tiny.parent)
    assert done.stdout == "helper\n"

    text = (out / "README.md").read_text()
    assert 'make lab EXTRAS=more PIP_FLAGS="--no-index --find-links ../wheels"' in text
    assert f"Python {sys.version.split()[0]} on " in text
    assert "| `wheels` |" in text and "| `course` |" in text and "site" not in text
    assert "README.md says how to install from it" in capsys.readouterr().out


def test_a_site_that_was_built_comes_along(tiny, monkeypatch):
    page = tiny / "build/book/html/index.html"
    page.parent.mkdir(parents=True)
    page.write_text("a page")
    out = tiny.parent / "stick"
    wheelhouse.site(out / "site")
    assert (out / "site/index.html").read_text() == "a page"
    assert "cd site && python3 -m http.server" in wheelhouse.readme(out, "more")


def test_a_package_that_is_nowhere_ends_it_and_says_what_to_do(tiny, monkeypatch, capfd):
    (tiny.parent / "index/helper-99.0-py3-none-any.whl").unlink()
    code, out = fill(tiny, monkeypatch)
    assert code != 0
    assert "pip could not make all wheels (its reason is above); run it again." in (
        capfd.readouterr().err
    )
    assert not (out / "README.md").exists()
