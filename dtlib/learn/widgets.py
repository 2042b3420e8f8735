"""The lesson's forms as anywidgets: real labels and inputs, and no access to the network.

Each has three versions: the live widget, HTML that can be read without a kernel, and plain text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from dtlib.learn import history
from dtlib.learn.show import escape

_JS = Path(__file__).parent / "js"


def _script(name: str) -> str:
    """A widget's JavaScript, common part included since such a module cannot import another."""
    return (_JS / "common.js").read_text("utf-8") + (_JS / f"{name}.js").read_text("utf-8")


class Form(anywidget.AnyWidget):
    """What the forms share: how they look without a widget manager."""

    def plain(self) -> str:
        """The form as text."""
        raise NotImplementedError

    def static(self) -> str:
        """The form as HTML that can be read without a kernel."""
        return f"<pre>{escape(self.plain())}</pre>"

    def __repr__(self) -> str:
        return self.plain()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data["text/plain"] = self.plain()
            data["text/html"] = self.static()
        return bundle


class PredictionForm(Form):
    """Ask for one prediction and keep it as soon as it is committed."""

    _esm = _script("prediction")
    spec = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, stem: str, key: str, spec: dict[str, Any]) -> None:
        self._place = (stem, "predictions", key)
        kept = history.read(*self._place)
        asked = {
            "question": " ".join(str(spec["question"]).split()),
            "unit": spec.get("unit", ""),
            "options": [option["text"] for option in spec.get("options") or []],
            "place": f"{stem}/{key}",  # where a web page keeps its reader's answer
        }
        super().__init__(spec=asked, answer={k: kept[k] for k in ("value", "sure") if k in kept})

    @traitlets.observe("answer")
    def _keep(self, change: Any) -> None:
        answer = change["new"]
        if "value" not in answer:
            return
        with history.change(*self._place) as entry:
            # The first commitment stands: a prediction is made once, before the measurement.
            if "value" not in entry:
                entry.update(value=answer["value"], sure=bool(answer.get("sure")))

    def plain(self) -> str:
        lines = [f"Your prediction: {self.spec['question']}"]
        lines += [f"  ( ) {text}" for text in self.spec["options"]]
        if self.answer:
            sure = "sure" if self.answer.get("sure") else "unsure"
            value = f"{self.answer['value']} {self.spec['unit']}".strip()
            lines.append(f"  committed: {value} ({sure})")
        return "\n".join(lines)

    def static(self) -> str:
        options = "".join(f"<li>{escape(text)}</li>" for text in self.spec["options"])
        question = f"<p><strong>Your prediction:</strong> {escape(self.spec['question'])}</p>"
        return question + (f"<ul>{options}</ul>" if options else "")


class QuizForm(Form):
    """A quiz of questions that `quiz.drawn` made; answers are kept as they arrive."""

    _esm = _script("quiz")
    questions: traitlets.List[Any] = traitlets.List().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)

    def __init__(self, stem: str, questions: list[dict[str, Any]]) -> None:
        self._stem = stem
        super().__init__(questions=questions, answers=history.read(stem, "quiz"))

    @traitlets.observe("answers")
    def _keep(self, change: Any) -> None:
        for key, answer in change["new"].items():
            if (change["old"] or {}).get(key) != answer:
                with history.change(self._stem, "quiz", key) as entry:
                    entry.update(answer)

    def plain(self) -> str:
        lines = []
        for number, item in enumerate(self.questions, start=1):
            first = item["variants"][0]
            lines.append(f"Question {number}. {first['text']}")
            lines += [f"    {line}" for line in first["output"].splitlines()]
            lines += [
                f"  {letter}) {option['text']}"
                for letter, option in zip("abcdefgh", first["options"], strict=False)
            ]
        return "\n".join(lines)

    def static(self) -> str:
        parts = []
        for item in self.questions:
            first = item["variants"][0]
            output = f"<pre>{escape(first['output'])}</pre>" if first["output"] else ""
            options = "".join(
                f"<li><details><summary>{escape(o['text'])}</summary>"
                f"{'Right.' if o['right'] else 'Not this one.'} {escape(o['why'])}</details></li>"
                for o in first["options"]
            )
            parts.append(
                f"<p><strong>{escape(first['text'])}</strong></p>{output}<ul>{options}</ul>"
            )
        return "".join(parts)


class WhatIfForm(Form):
    """Sliders over a pure-Python function; its source is included for pages without a kernel."""

    _esm = _script("what_if")
    spec = traitlets.Dict().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)
    result = traitlets.Dict().tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(self, spec: dict[str, Any], function: Any, source: str) -> None:
        self._function = function
        settings = {i["name"]: i["value"] for i in spec["inputs"]}
        super().__init__(spec=spec, settings=settings, source=source)

    @traitlets.observe("settings")
    def _run(self, change: Any) -> None:
        if change["new"]:
            answer = self._function(**change["new"])
            self.result = {**answer, "order": list(answer["curves"])}

    def plain(self) -> str:
        inputs = ", ".join(
            f"{i['label']} = {_spoken(i, self.settings[i['name']])}" for i in self.spec["inputs"]
        )
        return f"{self.spec['title']} ({inputs}): {self.result.get('says', '')}"


def _spoken(slider: dict[str, Any], value: float) -> str:
    """A slider's value in words, where the sidecar gives them; js/what_if.js does the rest."""
    if "words" in slider:
        return str(slider["words"][round((value - slider["min"]) / slider["step"])])
    unit = slider.get("unit") or ""
    if "base" in slider:
        return f"{slider['base']}^{value} {unit}".strip()
    return f"{value} {unit}".strip()
