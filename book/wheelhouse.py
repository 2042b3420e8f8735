"""Fill a folder for a USB stick: wheels of all that `make env` installs, the course, and its site.

`make wheelhouse` calls this. It needs nothing but Python's own library, pip and git.
"""

from __future__ import annotations

import argparse
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GB = 10**9
README = """\
# The course on a stick

| folder | what is in it | size |
| --- | --- | --- |
{table}

The wheels are for **Python {python} on {system}**, and for no other: on another system or with
another Python, fill a folder there (`make wheelhouse`), and copy its wheels into this `wheels`
folder, where those of several systems can lie side by side. You need that Python with its `venv`
module, and make. You need no network.

Copy both folders to the laptop's disk, side by side, into a folder whose name has no space in it:

    mkdir ~/workshop
    cp -r wheels course ~/workshop/
    cd ~/workshop/course
    make lab {extras}PIP_FLAGS="--no-index --find-links ../wheels"

The environment that this makes, `.venv`, takes more room than the wheels; when it is there, you can
delete `~/workshop/wheels`. From then on the command is `make lab`. To see whether all is well:

    .venv/bin/dtlib lessons ready 00
{site}"""
SITE = """
The lessons as they ran are pages of a website, which needs no installation:

    cd site && python3 -m http.server      # then open http://localhost:8000
"""


def main() -> int:
    """Fill the folder, and say how large it became."""
    parser = argparse.ArgumentParser(description="Fill a folder for a USB stick.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "wheelhouse")
    parser.add_argument("--extras", required=True, help="extras of pyproject.toml")
    parser.add_argument("--pip-flags", default="", help="options for pip, in one word")
    given = parser.parse_args()
    if code := wheels(given.out / "wheels", given.extras, shlex.split(given.pip_flags)):
        print("pip could not make all wheels (its reason is above); run it again.", file=sys.stderr)
        return code
    if code := course(given.out / "course"):
        print("git could not copy the course's files: use a clone of it.", file=sys.stderr)
        return code
    site(given.out / "site")
    text = readme(given.out, given.extras)
    (given.out / "README.md").write_text(text, encoding="utf-8")
    total = sum(map(size, given.out.iterdir()))
    print(f"{given.out} is filled, {total / GB:.1f} GB; its README.md says how to install from it.")
    return 0


def wheels(folder: Path, extras: str, flags: list[str]) -> int:
    """Fill `folder` with wheels of the course's packages, pip and build tools; pip's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = ["pip", *project["build-system"]["requires"], f".[{extras}]"]
    pip = [sys.executable, "-m", "pip", "wheel", "--wheel-dir", str(folder.resolve())]
    return subprocess.run([*pip, *flags, "-c", "constraints.txt", *wanted], cwd=ROOT).returncode


def course(folder: Path) -> int:
    """Copy the files as git has them: no run, no answer and no edit of this machine's user."""
    shutil.rmtree(folder, ignore_errors=True)
    words = ["git", "checkout-index", "--all", f"--prefix={folder.resolve()}/"]
    return subprocess.run(words, cwd=ROOT).returncode


def site(folder: Path) -> None:
    """Copy the website, if `make book` has built it."""
    shutil.rmtree(folder, ignore_errors=True)
    built = ROOT / "build" / "book" / "html"
    if (built / "index.html").exists():
        shutil.copytree(built, folder)


def readme(out: Path, extras: str) -> str:
    """What is on the stick, and how to install from it."""
    what = {"wheels": "packages, as pip installs them", "course": "the course", "site": "website"}
    there = {name: said for name, said in what.items() if (out / name).exists()}
    table = [f"| `{n}` | {said} | {size(out / n) / GB:.2f} GB |" for n, said in there.items()]
    return README.format(
        table="\n".join(table),
        # what was not packed must not be asked for
        extras=f"EXTRAS={extras} ",
        python=platform.python_version(),
        system=sysconfig.get_platform(),
        site=SITE if "site" in there else "",
    )


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    return sum(one.stat().st_size for one in [path, *path.rglob("*")] if one.is_file())


if __name__ == "__main__":
    sys.exit(main())
