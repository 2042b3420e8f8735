"""What tests of several rooms ask of a prediction."""

from __future__ import annotations

from typing import Any

from dtlib.learn import predictions, source


def right_options(number: str, key: str, measured: Any) -> list[str]:
    """The options of a lesson's prediction that are right where this was measured."""
    spec = source.find(number).sidecar["predictions"][key]
    texts = [option["text"] for option in spec["options"]]
    return [text for text in texts if predictions.verdict(spec, text, measured)]
