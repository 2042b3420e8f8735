"""Parameters of lessons: `-p name=value`, refused unless each chosen lesson can take them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dtlib.errors import BadInput, did_you_mean
from dtlib.learn.source import Lesson


def read_parameters(chosen: Sequence[Lesson], texts: Sequence[str]) -> dict[str, Any]:
    """Read `name=value` and refuse a name that a chosen lesson does not have."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"write a parameter as name=value, not as {text!r}.")
        values[name] = _value(value)
    for lesson in chosen:
        for name in values:
            if name not in lesson.parameters:
                raise BadInput(
                    f"lesson {lesson.number} has no parameter {name!r}; it has "
                    f"{', '.join(lesson.parameters)}." + did_you_mean(name, lesson.parameters)
                )
            _refuse_other_kind(name, values[name], lesson.parameters[name])
    return values


def _refuse_other_kind(name: str, value: Any, default: Any) -> None:
    """Refuse a value of another type than the lesson's own, such as text in place of a number."""
    kind, given = type(default), type(value)
    if default is None or value is None or given is kind or (kind, given) == (float, int):
        return
    if {kind, given} <= {list, tuple} or (kind is str and given in (int, float)):
        return
    if kind is int and given is float and value.is_integer():  # 4e6
        return
    nouns = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    nouns |= dict.fromkeys((list, tuple), "a list, such as [1, 2]")
    raise BadInput(
        f"the parameter {name} is {value!r}; it must be {nouns.get(kind, kind.__name__)},"
        f" like {default!r}."
    )


def _value(text: str) -> Any:
    import yaml

    # YAML 1.1 reads 1e-5 as a text.
    if re.fullmatch(r"[-+]?[\d.]+e[-+]?\d+", text, re.I):
        return float(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadInput(f"the value {text!r} of a parameter is not valid YAML; quote it.") from None
