"""Fill numbers into a sidecar's sentence; simple arithmetic is evaluated, and nothing more.

A sidecar is data that anybody may translate: its expressions are evaluated over the syntax tree,
with arithmetic, comparisons and a few functions of `math`, never with Python's own `eval`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import string
from collections.abc import Callable, Mapping
from typing import Any

from dtlib.errors import BadInput

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "len": len, "max": max, "min": min, "round": round, "sum": sum, "exp": math.exp,
    "log": math.log, "log2": math.log2, "sqrt": math.sqrt, "ceil": math.ceil, "floor": math.floor,
}  # fmt: skip

AN = re.compile(r"(?!one\b|eu)[aeioAEIO]|nd|8|1[18]\b")  # what is spoken with a vowel first


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Evaluate an arithmetic expression over the given names.

    Parameters
    ----------
    expression
        For instance `2 * (n - 1) / n * size`.
    names
        The value of each name; a list or a dict may be indexed.

    Raises
    ------
    BadInput
        For anything other than arithmetic, comparisons, `a if c else b` and a few named functions.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        raise BadInput(f"{expression!r} is not an arithmetic expression.") from None
    return _value(tree.body, names, expression)


def _value(node: ast.AST, names: Mapping[str, Any], whole: str) -> Any:
    def inner(part: ast.AST) -> Any:
        return _value(part, names, whole)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](inner(left), inner(right))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = inner(left), inner(right)
            if abs(power) <= 64:  # no sentence needs more, and 9**9**9 would never end
                return base**power
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](inner(operand))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARE for op in ops
        ):
            values = [inner(left), *map(inner, others)]
            pairs = zip(ops, values, values[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for op, a, b in pairs)
        case ast.BoolOp(op=op, values=parts):
            return (all if isinstance(op, ast.And) else any)(bool(inner(p)) for p in parts)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return inner(body) if inner(test) else inner(orelse)
        case ast.Subscript(value=value, slice=index):
            return inner(value)[inner(index)]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [inner(p) for p in parts]
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(inner, args))
        case ast.Name(id=name):
            known = ", ".join(names) or "none"
            raise BadInput(f"{whole!r} uses {name!r}; the known names are {known}.")
    raise BadInput(f"{whole!r} is more than arithmetic: {ast.unparse(node)!r} is not allowed.")


def fill(template: str, names: Mapping[str, Any]) -> str:
    """Fill `{expression}` and `{expression:format}` in a sentence; `{{` is a brace.

    "a {got}" becomes "an int" where the value needs it.

    >>> fill("{n} ranks send {2 * (n - 1) / n:.2f} S each", {"n": 4})
    '4 ranks send 1.50 S each'
    """
    out = []
    for literal, expression, spec, conversion in string.Formatter().parse(template):
        out.append(literal)
        if expression is not None:
            value = evaluate(expression, names)
            if conversion == "r":
                value = repr(value)
            text = format(value, fill(spec or "", names))
            if f" {out[-1]}".endswith(" a ") and AN.match(text):
                out[-1] = f"{out[-1][:-1]}n "
            out.append(text)
    return "".join(out)
