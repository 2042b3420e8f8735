"""Mutation operators on expressions: each yields what may stand in place of one.

All are pure: they yield new nodes and change none. `values` has what the parameters are in the
smallest case. Names and order are part of the record; a change here asks for new counts.
"""

import ast
import builtins
from collections.abc import Callable, Iterator

from mutation.nodes import OTHER_SIGN, Values, called, changed, parsed


def swap_arguments(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """Two arguments, operands, places of a tuple or branches change places."""
    for field in ("args", "elts"):
        several = getattr(node, field, None)
        if called(node) in ("max", "min") or _only_words(node):  # the order says nothing
            continue
        if isinstance(several, list) and not isinstance(getattr(node, "ctx", None), ast.Store):
            for i in range(len(several) - 1):
                yield changed(
                    node,
                    **{field: [*several[:i], several[i + 1], several[i], *several[i + 2 :]]},
                )
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Mult)):
        yield changed(node, left=node.right, right=node.left)
    if isinstance(node, ast.IfExp):
        yield changed(node, body=node.orelse, orelse=node.body)


def off_by_one(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """An integer, a bound of a range or a slice, a length or an index is one more or one less."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)
    if called(node) == "range":
        for sign in "+-":
            more = [*node.args[:-1], parsed(f"x {sign} 1", x=node.args[-1])]
            yield changed(node, args=more)
    if called(node) in ("len", "numel", "get_world_size", "get_rank"):
        yield parsed("x + 1", x=node)
        yield parsed("x - 1", x=node)
    if isinstance(node, ast.Slice):
        for field in ("lower", "upper"):
            bound = getattr(node, field)
            if bound is not None and not isinstance(bound, ast.Constant):
                yield changed(node, **{field: parsed("x + 1", x=bound)})
                yield changed(node, **{field: parsed("x - 1", x=bound)})


def rounding(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """Floor, ceiling, the nearest and no rounding stand for one another; a factor moves inside."""
    ways = {"floor": "x // 1", "ceil": "-(-x // 1)", "nearest": "round(x)", "none": "x"}
    inner, own = _rounded(node)
    if inner is not None:
        for way, text in ways.items():
            if way != own:
                yield parsed(f"{text}", x=inner)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield changed(node, op=ast.FloorDiv())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, other in ((node.left, node.right), (node.right, node.left)):
            inner, own = _rounded(other)
            if inner is not None:
                yield parsed(ways[own].replace("x", "(a * x)"), a=factor, x=inner)
    if called(node) == "bit_length":
        number = node.func.value
        for way in ("round", "int"):
            yield parsed(f"{way}(__import__('math').log2(x + 1))", x=number)


def _rounded(node: ast.AST) -> tuple[ast.AST | None, str]:
    """What a node rounds, and how."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        down, _ = _rounded(node.operand)
        negative = getattr(node.operand, "left", None)
        if down is not None and isinstance(negative, ast.UnaryOp):
            return parsed("a / b", a=negative.operand, b=node.operand.right), "ceil"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        return parsed("a / b", a=node.left, b=node.right), "floor"
    own = {"floor": "floor", "int": "floor", "ceil": "ceil", "round": "nearest"}.get(called(node))
    if own and len(node.args) == 1:
        return node.args[0], own
    return None, ""


OTHER_COMPARISON: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE), ast.Eq: (ast.NotEq, ast.GtE, ast.LtE), ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip


def comparison(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """`<` becomes `<=` or `>`, `==` becomes `!=`, `>=` or `<=`, and so on."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            sides = node.left, *node.comparators
            others = OTHER_COMPARISON.get(type(op), ())
            for other in others[:1] if any(map(_unordered, sides)) else others:
                yield changed(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]])


def _only_words(node: ast.AST) -> bool:
    """Whether it is a row of words, as behind `in`, or a set."""
    elements = getattr(node, "elts", None) or [None]
    words = [isinstance(e, ast.Constant) and isinstance(e.value, str) for e in elements]
    return isinstance(node, ast.Set) or all(words)


def _unordered(node: ast.AST) -> bool:
    """Whether it is a word, a set or the like, of which none is less than another."""
    word = isinstance(node, ast.Constant) and type(node.value) not in (int, float)
    return word or isinstance(node, (ast.Set, ast.List, ast.Tuple, ast.Dict))


def condition(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """`and` becomes `or`; a part of a condition, a `not` or a comprehension's `if` is left out."""
    if isinstance(node, ast.BoolOp):
        yield changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for i in range(len(node.values)):
            rest = [*node.values[:i], *node.values[i + 1 :]]
            yield rest[0] if len(rest) == 1 else changed(node, values=rest)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    for i, loop in enumerate(getattr(node, "generators", [])):
        if loop.ifs:
            plain = [*node.generators[:i], changed(loop, ifs=[]), *node.generators[i + 1 :]]
            yield changed(node, generators=plain)


def arithmetic(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """`+` for `-`, `*` for `/`, and an operand left out (a factor, a term, a `% n`)."""
    if isinstance(node, ast.BinOp):
        other = OTHER_SIGN.get(type(node.op))
        if other:
            yield changed(node, op=other())
        yield node.left
        yield node.right
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
        yield node.operand


def literal(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """A literal for a variable: what it is in the smallest case, or for two ranks."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in values:
        yield parsed(repr(values[node.id]))
    if called(node) == "get_world_size":
        yield ast.Constant(2)
        yield ast.Constant(3)
    if called(node) == "get_rank":
        yield ast.Constant(0)
    if called(node) == "len":
        yield ast.Constant(2)


def constant(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """A float is another one, a truth the other one, an element of a literal is missing."""
    if isinstance(node, ast.Constant) and type(node.value) is float:
        yield ast.Constant(2 * node.value if node.value else 1.0)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and node.value is None:
        yield ast.Constant(False)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and len(node.elts) > 1:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return
        for i in range(len(node.elts)):
            yield changed(node, elts=[*node.elts[:i], *node.elts[i + 1 :]])
    if isinstance(node, ast.Dict) and len(node.keys) > 1:
        for i in range(len(node.keys)):
            rest = [k for k in range(len(node.keys)) if k != i]
            yield changed(
                node, keys=[node.keys[k] for k in rest], values=[node.values[k] for k in rest]
            )


COPIES = ("clone", "detach", "copy", "contiguous", "copy_")
MAKERS = ("list", "dict", "tuple", "set", "copy", "deepcopy", "sorted", "reversed")


def view(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """A view for a copy: `.clone()`, `.detach()`, `list(…)`, `sorted(…)` and the like left out."""
    if called(node) in COPIES and isinstance(node.func, ast.Attribute) and not node.args:
        yield node.func.value
    if called(node) in MAKERS and len(node.args) == 1:
        yield node.args[0]
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred):
        yield node.elts[0].value


OUT_OF_PLACE = (
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "round",
    "clamp",
    "relu",
    "sqrt",
    "square",
)


def callers_data(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """What the caller handed over is changed: sorted, reversed, extended or divided where it is.

    The other way round, too: `x.add_(y)` becomes `x.add(y)`, whose result may be lost.
    """
    if called(node) == "sorted":
        sort = changed(node, func=ast.Attribute(node.args[0], "sort", ast.Load()), args=[])
        yield parsed("(s, x)[1]", s=sort, x=node.args[0])
    if called(node) == "reversed":
        yield parsed("(x.reverse(), x)[1]", x=node.args[0])
    if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "::-1":
        yield parsed("(x.reverse(), x)[1]", x=node.value)
    if isinstance(node, ast.List) and len(node.elts) == 2:
        a, b = node.elts
        if isinstance(a, ast.Starred) and isinstance(b, ast.Starred):
            yield parsed("(a.extend(b), a)[1]", a=a.value, b=b.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in OUT_OF_PLACE:
            yield changed(node, func=changed(node.func, attr=f"{name}_"))
        if name.endswith("_") and not name.startswith("_"):
            yield changed(node, func=changed(node.func, attr=name.rstrip("_")))


CASTS = ("float", "double", "half", "bfloat16", "to", "type_as", "type", "int", "long", "item")


def dtype(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """The dtype is dropped, or fixed to 32 bits: `numel() * 4` for `numel() * element_size()`."""
    if called(node) in ("element_size", "itemsize"):
        yield ast.Constant(4)
    if called(node) in CASTS and isinstance(node.func, ast.Attribute):
        yield node.func.value
    if isinstance(node, ast.Attribute) and node.attr in ("dtype", "itemsize"):
        yield parsed("torch.float32" if node.attr == "dtype" else "4")


def keyword(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """An argument given by name is left out, or the last one given by place."""
    if isinstance(node, ast.Call):
        for i in range(len(node.keywords)):
            yield changed(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])
        if len(node.args) > 1:
            yield changed(node, args=node.args[:-1])


TWINS = [
    ("min", "max"), ("any", "all"), ("sum", "max"), ("mean", "sum"), ("median", "mean"),
    ("zeros_like", "ones_like"), ("zeros", "ones"), ("empty_like", "zeros_like"),
    ("isend", "send"), ("irecv", "recv"), ("send", "recv"), ("isend", "irecv"),
    ("all_reduce", "barrier"), ("floor", "ceil"), ("log2", "log"), ("append", "extend"),
    ("SUM", "MAX"), ("SUM", "AVG"), ("MAX", "MIN"), ("item", "tolist"), ("keys", "values"),
    ("register_post_accumulate_grad_hook", "register_hook"), ("argmax", "argmin"),
]  # fmt: skip


def other_function(node: ast.AST, values: Values) -> Iterator[ast.AST]:
    """A function is taken for its neighbour: `min` for `max`, `mean` for `sum`."""
    field = {ast.Name: "id", ast.Attribute: "attr"}.get(type(node))
    if field is None or not isinstance(getattr(node, "ctx", None), ast.Load):
        return
    word = getattr(node, field)
    if field == "id" and not hasattr(builtins, word):  # a variable of that name
        return
    for a, b in TWINS:
        if word in (a, b):
            yield changed(node, **{field: b if word == a else a})


EXPRESSIONS: list[Callable[[ast.AST, Values], Iterator[ast.AST]]] = [
    swap_arguments, off_by_one, rounding, comparison, condition, arithmetic, literal, constant,
    view, callers_data, dtype, keyword, other_function,
]  # fmt: skip
