"""Small helpers on nodes, for the operators."""

import ast
import copy
from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]  # what a parameter is in the smallest case, where that is plain


def parsed(text: str, **parts: ast.AST) -> Any:
    """The node of an expression, each name of `parts` replaced by a copy of its node."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return copy.deepcopy(parts[node.id]) if node.id in parts else node

    return Fill().visit(ast.parse(text, mode="eval").body)


def called(node: ast.AST) -> str:
    """The last word of what a node calls: `all_reduce` for `dist.all_reduce(x)`."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def changed(node: Any, **fields: Any) -> Any:
    """A copy of a node with other fields."""
    twin = copy.copy(node)
    for name, value in fields.items():
        setattr(twin, name, value)
    return twin


OTHER_SIGN: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
