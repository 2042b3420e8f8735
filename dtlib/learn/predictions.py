"""Predictions, shown beside the measured results."""

from __future__ import annotations

import html
import json
from typing import Any

from dtlib.learn import history, session
from dtlib.learn.sentences import evaluate
from dtlib.learn.show import Shown, escape, said, say, show, table
from dtlib.measure.noise import WITHIN, Effect

UNPREDICTED = "You made no prediction."


def predict(key: str) -> None:
    """Ask for the prediction `key` of the sidecar, before the cell that measures it.

    Shows a form: a number or one of several options, sure or unsure, and a button that commits.
    A committed answer survives a restart of the kernel. Run All and papermill do not wait for one.
    """
    from dtlib.learn.widgets import PredictionForm

    lesson = session.current()
    spec = lesson.entry("predictions", key)
    show(PredictionForm(lesson.stem, key, spec))


def measured(
    key: str,
    value: Any,
    unit: str | None = None,
    source: str = "measured",
    effect: Effect | None = None,
) -> None:
    """Show a measurement beside the prediction and add it to `my_runs.csv`.

    Parameters
    ----------
    key
        The prediction's key.
    value
        The result: a number, or the text of an option.
    unit
        Unit of the number; by default the sidecar's.
    source
        Where it comes from, for `my_runs.csv`: "recorded" when another machine measured it;
        "computed" and "simulated" are also said in place of "measured".
    effect
        The result of `measure.noise.compare`. Within the noise, the prediction is not judged.
    """
    lesson = session.current()
    spec = lesson.entry("predictions", key)
    unit = spec.get("unit", "") if unit is None else unit
    if isinstance(value, str):  # the text of an option, which the form shows translated
        value = lesson.words(value)
    mine = history.read(lesson.stem, "predictions", key)
    guess = mine.get("value")
    my_run(spec.get("what", key), value, unit, predicted=guess, source=source, effect=effect)
    if guess is None:
        show(_unpredicted(f"{lesson.stem}/{key}", spec, value, unit, effect, _came(source)))
        return
    right = verdict(spec, guess, value) if effect is None or effect.real else None
    with history.change(lesson.stem, "predictions", key) as entry:
        entry.update(measured=value, unit=unit, right=right)
    sure = "sure" if mine.get("sure") else "unsure"
    of_guess = "" if isinstance(guess, str) else unit  # an option includes its unit
    show(table([[f"you predicted ({sure})", guess, of_guess], [_came(source), value, unit]]))
    if right is not None:
        say("As predicted." if right else "Not as predicted.", _why(spec, guess, value))


def _came(source: str) -> str:
    """The word for how a result came about; most were measured, here or elsewhere."""
    return source if source in ("computed", "simulated") else "measured"


def _unpredicted(
    place: str,
    spec: dict[str, Any],
    value: Any,
    unit: str,
    effect: Effect | None,
    how: str = "measured",
) -> Shown:
    """A measurement without a prediction.

    A web page may know one that this kernel does not: its reader's. So the markup says how each
    option, or a number, would be judged.
    """
    message = said(f"{how.capitalize()}:", f"{_number(value)} {unit}".strip() + f". {UNPREDICTED}")
    outcome: dict[str, Any] = {"value": value, "unit": unit, "close": _close(spec)}
    if texts := [option["text"] for option in spec.get("options") or []]:
        outcome["options"] = {
            text: [verdict(spec, text, value), _why(spec, text, value)] for text in texts
        }
    outcome["judged"] = effect is None or effect.real
    markup = message.markup.replace(UNPREDICTED, f'<span class="dtlib-guess">{UNPREDICTED}</span>')
    return Shown(
        message.text,
        f'<div class="dtlib-measured" data-prediction="{escape(place)}" '
        f'data-outcome="{html.escape(json.dumps(outcome, default=float))}">{markup}</div>',
    )


def _close(spec: dict[str, Any]) -> float:
    """How far a number may be off, as a share of what is measured."""
    return float(spec.get("close", 0.25))


def verdict(spec: dict[str, Any], guess: Any, value: Any) -> bool | None:
    """Whether a prediction holds; None when it cannot be compared with what was measured."""
    if spec.get("options"):
        for option in spec["options"]:
            if option["text"] == guess:
                when = option.get("when")
                return bool(evaluate(when, {"value": value})) if when else guess == value
        return None
    try:
        return abs(float(guess) - float(value)) <= _close(spec) * abs(value)
    except (TypeError, ValueError):
        return None


def _why(spec: dict[str, Any], guess: Any, value: Any) -> str:
    for option in spec.get("options") or []:
        if option["text"] == guess:
            return " ".join(str(option.get("why", "")).split())
    if not isinstance(value, (int, float)) or not value:
        return ""
    ratio = float(guess) / value
    if ratio > 10:
        return f"Your number is {ratio:.3g} times the measured one."
    return f"You were {abs(ratio - 1):.0%} off."


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def my_run(
    what: str,
    measured: Any,
    unit: str = "",
    *,
    predicted: Any = None,
    source: str = "measured",
    effect: Effect | None = None,
) -> None:
    """Add a row to the student's `my_runs.csv`; the capstone uses that table.

    Parameters
    ----------
    what
        What was measured, in a few words.
    measured, unit
        The number and its unit.
    predicted
        What the student had expected, if anything.
    source
        `"measured"`, `"simulated"` or `"recorded"`.
    effect
        The result of `measure.noise.compare`. If it is within the noise, a message and the row's
        source say so.
    """
    if effect is not None and not effect.real:
        source += history.NOISE
        text = f"{what}: {effect}. Noise hides the effect, or there is none: this is no result."
        say(WITHIN, text)
    history.add_run(
        {"lesson": session.current().number, "what": what, "predicted": predicted,
         "measured": measured, "unit": unit, "source": source}
    )  # fmt: skip


def take_away() -> None:
    """End a lesson: show checks passed, predictions that were sure and wrong, and what is next."""
    lesson = session.current()
    exercises = history.read(lesson.stem, "exercises")
    done = sorted(name for name, entry in exercises.items() if entry.get("passed"))
    say("Take-away.", f"Exercises passed: {', '.join(done) or 'none yet'}.")
    asked = lesson.sidecar.get("predictions") or {}
    wrong = [
        [(asked.get(key) or {}).get("question", key), e["value"], e.get("measured")]
        for key, e in sorted(history.read(lesson.stem, "predictions").items())
        if e.get("sure") and e.get("right") is False
    ]
    if wrong:
        title = "You were sure, but the measurement disagreed. These are worth a second look."
        show(table(wrong, ["question", "you predicted", "measured"], title))
    mine = [row for row in history.runs() if row["lesson"] == lesson.number]
    lost = "; ".join(row["what"] for row in mine if row["source"].endswith(history.NOISE))
    if lost:
        say("No results:", f"{lost}. These are within the machine's noise.")
    nothing = "This folder has no later lesson of the path."
    print(f"Next on the path: lesson {lesson.next}." if lesson.next else nothing)
