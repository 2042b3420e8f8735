"""Build the website into build/book/html: python book/make_site.py [--jobs N] [--kept].

1. `dtlib lessons pages` runs the lessons that changed (build/book/lessons); with `--kept` none.
2. npm brings what pages load, at the versions of package-lock.json (build/book/assets).
3. Both builders read book/: lay_sources.py copies the executed lessons into it, and what it makes.
4. Sphinx makes the pages. A warning is an error.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from dtlib.errors import DtlibError, Unavailable

BOOK = Path(__file__).resolve().parent
BUILD = BOOK.parent / "build" / "book"
ASSETS = BUILD / "assets"
JS = BOOK.parent / "dtlib" / "learn" / "js"
NEEDED = (
    "anywidget",
    "myst_nb",
    "sphinx_book_theme",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_togglebutton",
)
# What is copied from node_modules, and where it is found by pages.
COPIED = {
    "mathjax/tex-chtml.js": "mathjax",
    "mathjax/a11y": "mathjax",
    "mathjax/sre": "mathjax",
    "mathjax/ui": "mathjax",
    "mathjax/input": "mathjax",
    "mathjax/output": "mathjax",
    "@mathjax/mathjax-newcm-font/chtml": "mathjax/fonts/mathjax-newcm-font",
    "@mathjax/mathjax-newcm-font/chtml.js": "mathjax/fonts/mathjax-newcm-font",
    "requirejs/require.js": "widgets",
    "reveal.js/dist/reveal.js": "reveal",
    "reveal.js/dist/reveal.css": "reveal",
    "reveal.js/dist/plugin/notes.js": "reveal",
    "@jupyter-widgets/html-manager/dist/embed-amd.js": "widgets",
    "@micropython/micropython-webassembly-pyscript/micropython.mjs": "micropython",
    "@micropython/micropython-webassembly-pyscript/micropython.wasm": "micropython",
}


def main() -> int:
    """Build the site; the exit code is that of the first step that fails."""
    parser = argparse.ArgumentParser(description="Build the website into build/book/html.")
    parser.add_argument("--jobs", type=int, default=2, help="lessons at a time (default: 2)")
    parser.add_argument(
        "--kept", action="store_true", help="run no lesson: use their pages as they are"
    )
    args = parser.parse_args()
    try:
        npm = look_around()
        if not args.kept:
            words = ["-m", "dtlib", "lessons", "pages", "--jobs", str(args.jobs)]
            run([sys.executable, *words])
        bring_assets(npm)
        what_if = "".join((JS / f"{name}.js").read_text("utf-8") for name in ("common", "what_if"))
        (ASSETS / "what_if.mjs").write_text(what_if, encoding="utf-8")
        from lay_sources import lay_sources  # it needs what look_around has found

        lay_sources()
        words = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(BUILD / "doctrees")]
        shutil.rmtree(BUILD / "html", ignore_errors=True)
        run([sys.executable, "-m", "sphinx", *words, str(BOOK), str(BUILD / "html")])
    except DtlibError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except subprocess.CalledProcessError as error:
        return error.returncode
    print("The website is in build/book/html; to see it:")
    print(f"{sys.executable} -m http.server --directory build/book/html")
    return 0


def run(words: list[str], folder: Path = BOOK.parent) -> None:
    """Run a command in the project's folder; what it writes is seen."""
    subprocess.run(words, cwd=folder, check=True)


def look_around() -> str:
    """Find npm, and the packages that make pages, before anything takes time."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise Unavailable(
            f"The website needs {', '.join(missing)}: "
            "pip install -c constraints.txt -e '.[book]' in the course's folder."
        )
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable(
            "The website needs npm, which brings MathJax and the widgets' scripts: install Node.js "
            "(apt install npm; brew install node) and run `make book` again."
        )
    return npm


def bring_assets(npm: str) -> None:
    """Fill build/book/assets, unless the packages' versions are those that it has."""
    anywidget = Path(importlib.util.find_spec("anywidget").origin).parent / "nbextension/index.js"
    lock = (BOOK / "package-lock.json").read_bytes()
    wanted = hashlib.sha256(lock + anywidget.read_bytes() + repr(COPIED).encode()).hexdigest()
    mark = ASSETS / "complete"
    if mark.exists() and mark.read_text() == wanted:
        return
    folder = BUILD / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(BOOK / name, folder)
    words = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    if subprocess.run(words, cwd=folder).returncode:
        raise Unavailable(
            "npm could not bring the packages of book/package-lock.json (its reason is above): the "
            "website's first build needs a network or npm's cache."
        )
    shutil.rmtree(ASSETS, ignore_errors=True)
    for source, target in COPIED.items():
        copy(folder / "node_modules" / source, ASSETS / target)
    for font in (folder / "node_modules/@jupyter-widgets/html-manager/dist").glob("*.woff2"):
        # Either place is asked for, depending on which script loads first.
        copy(font, ASSETS / "widgets/@jupyter-widgets")
        copy(font, ASSETS / "widgets/@jupyter-widgets/html-manager/dist")
    shutil.copy(anywidget, ASSETS / "widgets/anywidget.js")
    mark.write_text(wanted)


def copy(source: Path, folder: Path) -> None:
    """Copy a file or a folder into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, folder / source.name)
    else:
        shutil.copy(source, folder)


if __name__ == "__main__":
    sys.exit(main())
