"""`%%ranks 4`: run a cell on four ranks and show each rank's output side by side.

    %%ranks 4
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    x

`rank`, `world_size`, `dist` and `torch` are defined. Notebook variables that the cell uses are
copied to the ranks, modules are imported there; nothing comes back. Each cell gets new processes.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import html
import importlib
import linecache
import symtable
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NoReturn

from dtlib.errors import BadInput
from dtlib.ranks import timeouts
from dtlib.ranks.show import Updated

FILENAME = "<ranks cell>"
GIVEN = ("rank", "world_size", "dist", "torch")
_DEFINITE = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def register(ipython: Any) -> None:
    """Give the notebook the cell magic `%%ranks`."""
    ipython.register_magic_function(
        lambda line, cell: run_cell(line, cell, ipython.user_ns, set(ipython.user_ns_hidden)),
        "cell",
        "ranks",
    )


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"%%ranks: {message}; write %%ranks 4, or %%ranks 4 --timeout 20.")


def arguments(line: str) -> argparse.Namespace:
    """Read the magic's own line.

    Raises
    ------
    BadInput
        When it is not `N [--timeout S] [--threads T] [--device D] [--debug] [--show-errors]`.
    """
    parser = _Arguments(prog="%%ranks", add_help=False, allow_abbrev=False)
    parser.add_argument("ranks", type=int)
    parser.add_argument("--timeout", type=float, default=timeouts.CELL)
    parser.add_argument("--threads", type=int, default=1)
    # A cell's tensors are on the CPU unless it says otherwise, and NCCL cannot send those.
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--show-errors", action="store_true")
    return parser.parse_args(line.split("#")[0].split())


def run_cell(line: str, cell: str, user: Mapping[str, Any], hidden: set[str]) -> None:
    """Run the cell on the ranks, show each rank's output, and raise an error if a rank failed.

    Raises
    ------
    RankFailed
        When a rank failed; with `--show-errors` the failure is only shown.
    BadInput
        When the line is wrong, the cell is not Python, or a value that it uses cannot be copied.
    """
    from dtlib.learn.show import Shown, escape, show
    from dtlib.ranks.launcher import blame, run_ranks

    options = arguments(line)
    # The magic is line 1 of the cell, so that errors number the lines as the editor does.
    source = "\n" + cell
    linecache.cache[FILENAME] = (len(source), None, source.splitlines(keepends=True), FILENAME)
    try:  # report a syntax error once, here, instead of on every rank
        compile(source, FILENAME, "exec")
    except SyntaxError as error:
        # For a stray `return` or `await`, the error has no text.
        code = (error.text or linecache.getline(FILENAME, error.lineno or 1)).strip()
        raise BadInput(f"SyntaxError in cell line {error.lineno}, {code}: {error.msg}.") from None
    values, modules = pack(names_used(source), user, hidden)
    view = Columns(options.ranks)
    outcomes = run_ranks(
        on_rank, (source, values, modules), ranks=options.ranks, view=view,
        timeout=options.timeout, debug=options.debug, threads=options.threads,
        device=options.device,
    )  # fmt: skip
    view.finish(outcomes)
    failure = blame(outcomes, options.timeout)
    if failure is None:
        return
    if not options.show_errors:
        raise failure
    show(Shown(failure.sentence, f"<p>{escape(failure.sentence)}</p>"))


def names_used(source: str) -> set[str]:
    """Return what a cell needs from the notebook: `names_read`, but for what ranks are given."""
    return names_read(source) - set(GIVEN)


def names_read(source: str) -> set[str]:
    """Return the names that a piece of code reads without defining them first.

    A function inside it counts with the global names that it reads.
    """
    used: set[str] = set()
    defined: set[str] = set()
    for statement in ast.parse(source).body:
        table = symtable.symtable(ast.unparse(statement), "cell", "exec")
        read = _read_globally(table)
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                read.add(node.target.id)
        used |= read - defined
        if isinstance(statement, _DEFINITE):
            defined |= {
                s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()
            }
    return {name for name in used if not hasattr(builtins, name)}


def _read_globally(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    own = {
        s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global())
    }
    return own.union(*(_read_globally(child) for child in table.get_children()))


def pack(
    names: set[str], user: Mapping[str, Any], hidden: set[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Split the names that the notebook defines into values and modules (by their real names).

    Raises
    ------
    BadInput
        With the names that cannot be pickled.
    """
    from dtlib.ranks import parcel

    here = {name: user[name] for name in sorted(names) if name in user and name not in hidden}
    modules = {n: v.__name__ for n, v in here.items() if isinstance(v, ModuleType)}
    values = {n: v for n, v in here.items() if n not in modules}
    stuck = []
    for name, value in values.items():
        try:
            parcel.dumps(value)
        except Exception:  # whatever the value's own class raises when it is pickled
            stuck.append(f"{name} ({type(value).__name__})")
    if stuck:
        raise BadInput(
            f"The cell uses {', '.join(stuck)}, which cannot be copied to the ranks; "
            "create it inside the cell."
        )
    return values, modules


def on_rank(source: str, values: dict[str, Any], modules: dict[str, str]) -> tuple[str, str] | None:
    """Run the cell here, and return the last expression's text and HTML, as a notebook would."""
    import torch
    import torch.distributed as dist

    space: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dist": dist}
    space.update(values)
    space.update({name: importlib.import_module(module) for name, module in modules.items()})
    space.update(rank=dist.get_rank(), world_size=dist.get_world_size())
    tree = ast.parse(source, FILENAME)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, FILENAME, "exec"), space)
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), FILENAME, "eval"), space)
    if value is None or source.rstrip().endswith(";"):
        return None
    markup = getattr(value, "_repr_html_", None)
    return repr(value), (markup() if callable(markup) else None) or ""


class Columns(Updated):
    """The output of all ranks, side by side, updated as it arrives; stacked on a narrow screen."""

    EVERY = 0.25  # seconds between updates
    MOST = 500  # lines shown for each rank

    def __init__(self, ranks: int) -> None:
        self.lines: list[list[str]] = [[] for _ in range(ranks)]
        self.results: list[tuple[str, str] | None] = [None] * ranks
        self.notes = [""] * ranks
        self.top = ""
        self._at = time.monotonic()

    def line(self, rank: int, text: str) -> None:
        self.lines[rank].append(text)
        self._update()

    def progress(self, done: int, total: int, numbers: dict[str, Any]) -> None:
        from dtlib.ranks.launcher import progress_words

        self.top = progress_words(done, total, numbers)
        self._update()

    def close(self) -> None:
        """Show the output so far, also after an interrupt."""
        if self._handle is not None:
            self._update(now=True)

    def finish(self, outcomes: list[Any]) -> None:
        """Add the last expressions and how each rank ended, and show the final state."""
        for outcome in outcomes:
            if outcome.status == "ok":
                self.results[outcome.rank] = outcome.value
            else:
                self.notes[outcome.rank] = _ended(outcome)
        self.top = ""
        if any(self.lines) or any(self.results) or any(self.notes) or self._handle is not None:
            self._update(now=True)

    def _update(self, now: bool = False) -> None:
        if not now and time.monotonic() - self._at < self.EVERY:
            return
        self._at = time.monotonic()
        self.display(self.plain(), self.markup())

    def _text(self, rank: int) -> list[str]:
        lines = self.lines[rank][-self.MOST :]
        if len(lines) < len(self.lines[rank]):
            lines.insert(0, f"… the last {self.MOST} of {len(self.lines[rank])} lines:")
        result = self.results[rank]
        if result is not None and not result[1]:
            lines += result[0].splitlines()
        return lines

    def plain(self) -> str:
        """One block of lines for each rank."""
        parts = [self.top] if self.top else []
        for rank, note in enumerate(self.notes):
            result = self.results[rank]
            lines = self._text(rank) + ([result[0]] if result and result[1] else [])
            lines += [f"({note})"] if note else []
            parts += [f"rank {rank} | {line}" for line in lines or ["(no output)"]]
        return "\n".join(parts)

    def markup(self) -> str:
        """One section for each rank, in a row that wraps."""
        sections = []
        for rank, note in enumerate(self.notes):
            result = self.results[rank]
            title = f"rank {rank}" + (f": {note}" if note else "")
            sections.append(
                f'<section aria-label="rank {rank}" style="min-width:0;border:1px '
                'solid var(--jp-border-color1,#757575);border-radius:4px;padding:4px 8px">'
                f"<strong>{html.escape(title)}</strong>"
                '<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;'
                'margin:4px 0">'
                f"{html.escape(chr(10).join(self._text(rank)))}</pre>"
                f"{result[1] if result else ''}</section>"
            )
        top = f"<p>{html.escape(self.top)}</p>" if self.top else ""
        # A grid, so that the last section of a second row is no wider than those above it.
        columns = "repeat(auto-fit,minmax(min(100%,12em),1fr))"
        row = f'<div style="display:grid;grid-template-columns:{columns};gap:8px">'
        return f"{top}{row}{''.join(sections)}</div>"


def _ended(outcome: Any) -> str:
    words = {"killed": "killed", "exit": "left early", "timeout": "timed out", "stopped": "ended"}
    return words.get(outcome.status, f"raised {outcome.error}")
