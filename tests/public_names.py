"""Who uses what: the public names of dtlib that nothing but tests asks for, read from the sources.

A name is a function, a class or a constant of a module, without an underscore. It is used when its
own module reads it outside its definition, when another file imports it, or reads it from a module
that it imports, and when a page, a script or a sidecar names it with its module. A package that
passes a name on does not use it.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("dtlib", "lessons_src", "book", "slurm", "docker", "notebooks")
TEXTS = (".md", ".yaml", ".yml", ".sh", ".sbatch", ".toml", ".ipynb", ".def", "")


def unused() -> list[str]:
    """Return `module:name` of each public name of dtlib that nothing outside tests uses."""
    used = {pair for path in _sources() for pair in _uses(path)} | set(_said(_texts()))
    return sorted(
        f"{module}:{name}"
        for module, path in _modules().items()
        for name, statement in _public(path).items()
        if (module, name) not in used and not _read_here(path, name, statement)
    )


def unused_methods() -> list[str]:
    """Return `module:Class.method` of each public method that nothing outside tests reads."""
    nodes = [node for path in _sources() for node in ast.walk(_tree(path))]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return sorted(
        f"{module}:{kind.name}.{method.name}"
        for module, path in _modules().items()
        for kind in ast.walk(_tree(path))
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef) and method.name not in read
        if not method.name.startswith("_")
    )


def _sources() -> list[Path]:
    """Every file of Python that is no test."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    tests = {p for p in paths if p.name.startswith(("test_", "conftest")) or "bank" in p.parts}
    return [path for path in paths if path not in tests or path.is_relative_to(ROOT / "dtlib")]


@cache
def _modules() -> dict[str, Path]:
    """Dotted name → file, of dtlib."""
    paths = {
        path.relative_to(ROOT).with_suffix(""): path for path in (ROOT / "dtlib").rglob("*.py")
    }
    return {".".join(p.parts).removesuffix(".__init__"): path for p, path in paths.items()}


def _texts() -> str:
    """All that is no Python: pages, scripts, sidecars, notebooks; and what make says."""
    paths = [path for folder in FOLDERS[1:] for path in (ROOT / folder).rglob("*")]
    paths = [path for path in paths if path.suffix in TEXTS]
    paths += [ROOT / "Makefile", ROOT / "pyproject.toml", *(ROOT / ".ci").glob("*")]
    return "\n".join(path.read_text("utf-8", "ignore") for path in paths if path.is_file())


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def _public(path: Path) -> dict[str, ast.stmt]:
    """The public names that a module makes, each with the statement that makes it."""
    found: dict[str, ast.stmt] = {}
    for statement in _tree(path).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = getattr(statement, "targets", None) or [statement.target]
            parts = [node for target in targets for node in ast.walk(target)]
            names = [node.id for node in parts if isinstance(node, ast.Name)]
        else:
            continue
        found.update((name, statement) for name in names if not name.startswith("_"))
    return found


def _read_here(path: Path, name: str, own: ast.stmt) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        for statement in _tree(path).body
        if statement is not own
        for node in ast.walk(statement)
    )


def _uses(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a file imports from dtlib, or reads from what it imports."""
    nodes = list(ast.walk(_tree(path)))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    loaded = {node.id for node in nodes if isinstance(node, ast.Name)}
    strings = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    for module, name, own in _imports(path):
        if name is None:
            yield from (origin for what in read for origin in _origins(module, what))
        elif own in loaded or path.name != "__init__.py":
            yield from _origins(module, name)
    yield from _said("\n".join(strings))
    # sys.modules["dtlib.ranks.worker"].send_progress
    yield from ((module, what) for module in strings & _modules().keys() for what in read)
    text = path.read_text("utf-8")  # getattr(module, "STRATEGIES", {}), import_module(…).TASK
    for what in re.findall(r'getattr\(\w+, "(\w+)"|import_module\(.*\)\.(\w+)', text):
        yield from ((module, name) for module in _modules() for name in what)


@cache
def _imports(path: Path) -> list[tuple[str, str | None, str]]:
    """Each import of dtlib: the module, a name of it (None: the module), what it is called here."""
    found: list[tuple[str, str | None, str]] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
                found += [(module, None, "") for module in names & _modules().keys()]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                own, inside = alias.asname or alias.name, f"{node.module}.{alias.name}"
                if inside in _modules():
                    found.append((inside, None, own))
                elif node.module in _modules():
                    found.append((str(node.module), alias.name, own))
    return found


def _origins(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield where a name of a module really comes from, through what packages pass on."""
    if name in _public(_modules()[module]):
        yield module, name
        return
    for beyond, what, own in _imports(_modules()[module]):
        if own == name and what is not None and beyond != module:
            yield from _origins(beyond, what)


def _said(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a text names: `dtlib.sim.states:share`, `learn.hint`; a module's name runs it."""
    for hit in set(re.findall(r"\b(?:dtlib|learn)(?:\.\w+)+(?::\w+)?", text)):
        module, _, name = hit.replace("learn.", "dtlib.learn.", hit[0] == "l").partition(":")
        if not name and module not in _modules():
            module, _, name = module.rpartition(".")
        if module in _modules():
            yield from _origins(module, name or "main")
