"""The rules of the house: what may be imported, how long code may be, which pages are true."""

import ast
import re
import sys
from pathlib import Path

import pytest
from processes import python, run

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SOURCES = sorted((ROOT / "dtlib").rglob("*.py"))

HEAVY = ["torch", "torchvision", "transformers", "matplotlib", "deepspeed", "lightning",
         "papermill"]  # fmt: skip


@pytest.mark.parametrize(
    "module", ["dtlib", "dtlib.cli", "dtlib.config", "dtlib.learn", "dtlib.lessons"]
)
def test_importing_loads_nothing_heavy(module):
    code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    done = python("-c", code, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr


def test_imports_only_go_down():
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed: pip install import-linter")
    done = run(linter, cwd=ROOT)
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


def calls_of(name: str, tree: ast.AST) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name
    ]


# field bugs 1.16 and 5.04
def test_every_torch_load_says_where_to_and_runs_no_code():
    found = 0
    for path in SOURCES:
        for call in calls_of("torch.load", ast.parse(path.read_text())):
            found += 1
            told = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert told.get("weights_only") == "True", path
            assert told.get("map_location", "None") != "None", path
    assert found


def tracked() -> list[Path]:
    """The files of the project: what git knows, or would know."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
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
                if personal.search(line) and path.name != "test_house.py":
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
    found = run(*asked, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert [
        path for path in found.stdout.splitlines() if path.endswith((".py", ".sh", ".yaml"))
    ] == []
