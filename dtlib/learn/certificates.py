"""`dtlib certificate`: which checks a student has passed, in a file that can be verified.

The file is Markdown for people, and ends in the same facts as JSON, with the answers. To verify
it, the Markdown is made anew from the JSON and compared, so an edited file is refused; then every
answer goes through its check again. What no file can show is who wrote the answers, and when.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dtlib import __version__
from dtlib.errors import BadInput, in_words
from dtlib.learn import history, ladder, own_code, rooms
from dtlib.learn.catalogue import exercises, in_order
from dtlib.learn.source import find
from dtlib.learn.verdicts import NotJudged, Passed, Wrong, sentence
from dtlib.training.record import commit

FORMAT = "dtlib certificate 1"
LONGEST_NAME = 80
BEGIN = "\n## For programs\n\n```json\n"
_END = "\n```\n"
_EARLIER = "was passed with a version of the course that kept no answers"
# What `own_code` writes.
_STATEMENTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef, ast.ClassDef)


def facts(name: str) -> dict[str, Any]:
    """What this student has passed, as the JSON part has it.

    Parameters
    ----------
    name
        The student's name; may be empty.

    Raises
    ------
    BadInput
        When nothing was passed, or the name is more than one line of 80 characters.
    """
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise BadInput(f"--name must be one line of at most {LONGEST_NAME} characters.")
    passed = list(_passed())
    if not passed:
        raise BadInput(
            f"no exercise has been passed in {history.folder().parent}: give the folder of your"
            " notebooks with --folder, such as notebooks/student."
        )
    found = {
        "format": FORMAT, "name": name, "made": _day(time.time()), "dtlib": __version__,
        "commit": commit() or "unknown", "passed": passed,
    }  # fmt: skip
    return found | {"digest": _digest(found)}


def _passed() -> Iterator[dict[str, Any]]:
    for lesson in in_order():
        for name in exercises(lesson):
            entry = history.read(lesson.stem, "exercises", name)
            if not entry.get("passed"):
                continue
            when, answer = entry.get("passed_at"), own_code.kept(lesson, name)
            row = {
                "exercise": f"{lesson.number}/{name}", "lesson": str(lesson.header["title"]),
                "on": _day(when) if isinstance(when, int) else "unknown",
                "attempts": entry.get("checks") or "unknown",
            }  # fmt: skip
            if answer is not None:
                yield row | {"answer": answer.splitlines()}
            else:
                yield row | {"not_kept": entry.get("not_kept") or _EARLIER}


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def _digest(found: dict[str, Any]) -> str:
    plain = {key: value for key, value in found.items() if key != "digest"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def written(found: dict[str, Any]) -> str:
    """The whole file: a table for people, then the facts for programs."""
    name = re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", found["name"])
    whose = f" of {name}" if name else ""
    lines = [
        f"# Exercises passed{whose}",
        "",
        f"Course *From one laptop to a cluster*, dtlib {found['dtlib']}, commit "
        f"{short(found['commit'])}; made on {found['made']}.",
        "",
        "| lesson | exercise | passed on | attempts | answer in this file |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in found["passed"]:
        number, _, exercise = row["exercise"].partition("/")
        kept = "yes" if "answer" in row else f"no, it {row['not_kept']}"
        cells = [f"{number} {row['lesson']}", f"`{exercise}`", row["on"], row["attempts"], kept]
        lines.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |")
    lines += [
        "",
        "`dtlib certificate verify FILE` refuses this file if it was edited, and runs each answer",
        "through its check again. It cannot tell who wrote the answers, or when: name and dates",
        "are the student's own word.",
    ]
    text = "\n".join(lines) + "\n"
    return text + BEGIN + json.dumps(found, indent=1, ensure_ascii=False) + _END


def short(commit: str) -> str:
    """A commit as people read it: twelve digits, and whether anything was changed since."""
    return commit[:12] + "-dirty" * commit.endswith("-dirty")


def read(file: Path) -> dict[str, Any]:
    """The facts of a certificate.

    Raises
    ------
    BadInput
        When the file is no certificate, or is not as `dtlib certificate` wrote it.
    """
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read ({in_words(error)}): give a certificate.") from None
    text = text.replace("\r\n", "\n").rstrip() + "\n"  # as mail programs may send it
    _, begin, rest = text.partition(BEGIN)
    if not begin:
        raise BadInput(f"{file} is not a certificate of this course: it has no part for programs.")
    try:
        found = json.loads(rest.removesuffix(_END))
        same = found["digest"] == _digest(found) and written(found) == text
        known = found["format"] == FORMAT and all(map(_has_lines, found["passed"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        same = known = False
    if not same or not known:
        raise BadInput(
            f"{file} was edited after `dtlib certificate` wrote it: ask for the original file."
        )
    return dict(found)


def _has_lines(row: dict[str, Any]) -> bool:
    """Whether an answer, if there is one, is a list of lines."""
    lines = row.get("answer", [])
    return isinstance(lines, list) and all(isinstance(line, str) for line in lines)


def verdicts(found: dict[str, Any]) -> Iterator[tuple[str, bool | None, str]]:
    """Run every answer of a certificate through its check.

    Yields
    ------
    tuple
        The exercise, whether its answer passes (None without an answer), and a sentence.
    """
    for row in found["passed"]:
        if "answer" not in row:
            yield row["exercise"], None, f"claimed: the answer {row['not_kept']}."
            continue
        with contextlib.redirect_stdout(io.StringIO()):  # what the answer prints
            problem = _problem(row["exercise"], "\n".join(row["answer"]) + "\n")
        yield row["exercise"], not problem, problem or "passes."


def _problem(exercise: str, text: str) -> str:
    """Why an answer does not pass; `""` if it does."""
    number, _, name = exercise.partition("/")
    try:
        lesson = find(number)
        check = ladder.find_exercise(lesson, name)
        rooms.enter(lesson)
        if not all(isinstance(node, _STATEMENTS) for node in ast.parse(text).body):
            return "holds more than imports, values and definitions, so it is not run."
        verdict = ladder.judge(lesson, name, check, own_code.restored(text))
    except (BadInput, NotJudged) as error:
        return f"cannot be checked: {error}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # `x = exit()` would end the command as if all was well
        why = in_words(error) if isinstance(error, Exception) else "which ends programs"
        return f"cannot be read: {type(error).__name__}, {why}."
    if isinstance(verdict, Passed):
        return ""
    if isinstance(verdict, Wrong):
        return f"does not pass: {sentence(lesson.sidecar, name, verdict)}"
    return "does not pass: it is the empty stub."
