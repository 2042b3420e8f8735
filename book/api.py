"""The reference of dtlib's public names, made from their docstrings by Sphinx's napoleon.

It is written where dtlib can be imported, so the builders of the website need not import it.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from sphinx.ext.napoleon import Config, NumpyDocstring

# What is for people outside of dtlib: what lessons and scripts import.
MODULES = (
    "dtlib",
    "dtlib.learn",
    "dtlib.learn.drawing",
    "dtlib.learn.charts",
    "dtlib.ranks.dist",
    "dtlib.data",
    "dtlib.models.gpt",
    "dtlib.models.resnet",
    "dtlib.scratch.ring",
    "dtlib.scratch.data_parallel",
    "dtlib.scratch.zero",
    "dtlib.scratch.pipeline",
    "dtlib.scratch.context_parallel",
    "dtlib.scratch.experts",
    "dtlib.scratch.local_steps",
    "dtlib.sim.collectives",
    "dtlib.sim.traffic",
    "dtlib.sim.pipeline",
    "dtlib.sim.context_parallel",
    "dtlib.sim.experts",
    "dtlib.sim.local_steps",
    "dtlib.sim.mesh",
    "dtlib.sim.layout",
    "dtlib.sim.layout_rank",
    "dtlib.sim.states",
    "dtlib.sim.activations",
    "dtlib.sim.flops",
    "dtlib.sim.estimate",
    "dtlib.sim.hardware",
    "dtlib.measure.ledger",
    "dtlib.measure.noise",
    "dtlib.measure.profiling",
    "dtlib.training.record",
    "dtlib.training.checkpoint",
    "dtlib.errors",
)
STYLE = Config(napoleon_use_rtype=False, napoleon_use_ivar=True)


def page() -> str:
    """All modules, each with its public names, as Markdown around reStructuredText."""
    return "\n".join(_module(importlib.import_module(name)) for name in MODULES)


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes that a module offers: its `__all__`, or what is defined in it."""
    listed = getattr(module, "__all__", None)
    for name in sorted(listed or vars(module), key=str.lower):
        thing = getattr(module, name)
        if not (inspect.isfunction(thing) or inspect.isclass(thing)) or name.startswith("_"):
            continue
        if listed or thing.__module__ == module.__name__:
            yield name, thing


def _module(module: ModuleType) -> str:
    about = _examples((module.__doc__ or "").strip())
    # Where a name is listed twice, it is explained where it was first.
    lines = [f".. py:currentmodule:: {module.__name__}", ""]
    for name, thing in public(module):
        lines += _thing(name, thing, again=_before(module.__name__, thing))
    return (
        f"## {module.__name__}\n\n```{{eval-rst}}\n" + about + "\n\n" + "\n".join(lines) + "\n```\n"
    )


def _before(module: str, thing: Any) -> str:
    """The module that offered the same thing earlier in the reference, if one did."""
    for name in MODULES[: MODULES.index(module)]:
        if any(other is thing for _, other in public(importlib.import_module(name))):
            return name
    return ""


def _thing(name: str, thing: Any, again: str) -> Iterator[str]:
    kind = "class" if inspect.isclass(thing) else "function"
    if kind == "class" and issubclass(thing, Exception):
        kind, called = "exception", ""
    else:
        called = _signature(thing)
    yield f".. py:{kind}:: {name}{called}"
    if again:
        yield from ("   :no-index:", "", f"   See `{again}`.", "")
        return
    yield from ("", *_indented(_documented(thing)), "")
    if kind == "class":
        for method_name, method in vars(thing).items():
            if _own(method, thing) and not method_name.startswith("_"):
                yield f"   .. py:method:: {method_name}{_signature(method, bound=True)}"
                yield from ("", *_indented(_documented(method), "      "), "")


def _own(method: Any, kind: type) -> bool:
    """Whether a method is written in the class itself; some frameworks add methods to a class."""
    return inspect.isfunction(method) and method.__module__ == kind.__module__


def _documented(thing: Any) -> str:
    return str(NumpyDocstring(_examples(inspect.cleandoc(thing.__doc__ or "")), STYLE))


def _examples(text: str) -> str:
    """A docstring whose indented code, before its first section, is marked as code."""
    before = re.split(r"^(?=[A-Z]\w+\n---)", text, maxsplit=1, flags=re.M)[0]
    after = text[len(before) :]
    return re.sub(r"(?<=\n\n)(?=    \S)(?<!    \n\n)", "::\n\n", before, count=1) + after


def _indented(text: str, by: str = "   ") -> list[str]:
    return [by + line if line else "" for line in text.splitlines()]


def _signature(thing: Any, *, bound: bool = False) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        one.replace(annotation=_Bare.of(one.annotation)) for one in found.parameters.values()
    ]
    returned = _Bare.of(found.return_annotation)
    return str(found.replace(parameters=parameters[bound:], return_annotation=returned))


class _Bare(str):
    """An annotation that a signature prints without quotes."""

    @classmethod
    def of(cls, annotation: Any) -> Any:
        written = getattr(annotation, "__forward_arg__", annotation)
        return cls(written) if isinstance(written, str) else annotation

    def __repr__(self) -> str:
        return str(self)
