"""Mutation operators on statements: each yields the statements that stand in place of one.

All are pure: they yield new nodes and change none. Names and order are part of the record; a change
here asks for new counts.
"""

import ast
import builtins
import copy
from collections.abc import Callable, Iterator

from mutation.nodes import OTHER_SIGN, changed


def drop(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement is left out."""
    if not isinstance(node, (ast.FunctionDef, ast.Pass)):
        yield []


def unwrap(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """What an `if`, `with`, `for` or `try` holds, without it; a loop that ends after one round."""
    if isinstance(node, (ast.If, ast.With, ast.Try)):
        yield node.body
    if isinstance(node, ast.If) and node.orelse:
        yield node.orelse
    if isinstance(node, (ast.For, ast.While)):
        yield [changed(node, body=[*node.body, ast.Break()])]


def out_of_loop(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """A statement of a loop's body comes once, behind it or before it."""
    if isinstance(node, (ast.For, ast.While, ast.With)) and len(node.body) > 1:
        yield [changed(node, body=node.body[:-1]), node.body[-1]]
        yield [node.body[0], changed(node, body=node.body[1:])]


def into_loop(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The last statement of a loop's body comes first."""
    if isinstance(node, (ast.For, ast.While)) and len(node.body) > 2:
        yield [changed(node, body=[node.body[-1], *node.body[:-1]])]


def in_place(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """`x = x + y` becomes `x += y`, and the other way round: one changes what others hold."""
    if isinstance(node, ast.AugAssign):
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        value = ast.BinOp(load, node.op, node.value)
        yield [ast.Assign([node.target], value, lineno=node.lineno)]
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(value, ast.BinOp) and ast.unparse(value.left) == ast.unparse(target):
            yield [ast.AugAssign(target, value.op, value.right)]
        if isinstance(target, ast.Name):  # a local name in place of what the caller holds
            return
        yield [ast.Assign([ast.Name("own", ast.Store())], value, lineno=node.lineno)]


def overwrite(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """`+=` becomes `=` or `-=`, `/=` becomes `*=`."""
    if isinstance(node, ast.AugAssign):
        yield [ast.Assign([node.target], node.value, lineno=node.lineno)]
        other = OTHER_SIGN.get(type(node.op))
        if other:
            yield [changed(node, op=other())]


def kept_state(function: ast.FunctionDef) -> Iterator[tuple[int, ast.FunctionDef]]:
    """A value that the first call computed is kept for all later ones; with its line."""
    for i, node in enumerate(function.body):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if not _depends(node.value):
            continue
        name = node.targets[0].id
        twin = copy.deepcopy(function)
        twin.args.kwonlyargs.append(ast.arg("_kept"))
        twin.args.kw_defaults.append(ast.Dict([], []))
        value = ast.unparse(node.value)
        twin.body[i : i + 1] = ast.parse(
            f"if {name!r} not in _kept:\n    _kept[{name!r}] = {value}\n{name} = _kept[{name!r}]"
        ).body
        yield node.lineno, twin


def _depends(value: ast.AST) -> bool:
    """Whether a value can differ from call to call: it has a variable, or something that fills."""
    nodes = list(ast.walk(value))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    fills = [getattr(node, "elts", getattr(node, "keys", None)) == [] for node in nodes]
    return any(fills) or bool(words - set(dir(builtins)))


STATEMENTS: list[Callable[[ast.stmt], Iterator[list[ast.stmt]]]] = [
    drop, unwrap, out_of_loop, into_loop, in_place, overwrite,
]  # fmt: skip
