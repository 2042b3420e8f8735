"""`dtlib certificate`: what it lists, that edits are refused, that answers are really run."""

import json
from pathlib import Path
from typing import Any

import pytest

from dtlib import cli, learn
from dtlib.learn import certificates, history

pytestmark = pytest.mark.usefixtures("demo_lesson")
FILE = Path("certificate.md")
ANSWER = Path(".dtlib/answers/90_demo/double.py")


def double(x):
    print("what an answer prints is not part of the report")
    return x + x


def same(x):
    return x


def made(capsys: Any, *words: str) -> str:
    """Pass the exercise at the second attempt, and write a certificate."""
    learn.check("double", same)
    learn.check("double", double)
    capsys.readouterr()
    assert cli.main(["certificate", "--name", "Zoë *O'Brien*", *words]) == 0
    return FILE.read_text("utf-8")


def verified(capsys: Any, code: int) -> str:
    capsys.readouterr()
    assert cli.main(["certificate", "verify", str(FILE)]) == code
    shown = capsys.readouterr()
    return shown.out + shown.err


def test_it_lists_what_was_passed_and_verifies_it(capsys: Any) -> None:
    text = made(capsys)
    assert text.startswith("# Exercises passed of Zoë \\*O'Brien\\*\n")
    assert "| 90 A lesson for the tests | `double` |" in text and "| 2 | yes |" in text
    said = verified(capsys, 0)
    assert "certificate.md is consistent: Zoë *O'Brien*, made on " in said
    assert "  90/double: passes.\n1 verified, 0 failed, 0 claimed" in said
    assert "what an answer prints" not in said


def test_as_a_mail_program_changes_it_it_is_still_the_same(capsys: Any) -> None:
    text = made(capsys)
    FILE.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    assert "1 verified" in verified(capsys, 0)


@pytest.mark.parametrize(("old", "new"), [
    ("| 2 | yes |", "| 1 | yes |"),  # for people
    ('"attempts": 2', '"attempts": 1'),  # for programs
    ("Zoë", "Zoe"),
    ("return x + x", "return x * 2"),
    ("answer in this file", "answer in this  file"),
    ('"digest": "', '"digest": "0'),
    ("\n```\n", "\n"),
    ('"passed": [', '"passed": ["'),
    ("dtlib certificate 1", "dtlib certificate 2"),
    ("## For programs", "## For programs\n"),
])  # fmt: skip
def test_an_edited_file_is_refused(capsys: Any, old: str, new: str) -> None:
    text = made(capsys)
    FILE.write_text(text.replace(old, new))
    assert FILE.read_text() != text
    said = verified(capsys, 2)
    assert "was edited after" in said or "no part for programs" in said


def forged(**row: Any) -> None:
    """Change the certificate as somebody does who knows how it is made."""
    found = certificates.read(FILE)
    found["passed"][0] |= row
    FILE.write_text(certificates.written(found | {"digest": certificates._digest(found)}))


@pytest.mark.parametrize(("row", "words"), [
    ({"answer": ["def answer(x):", "    return x"]}, "does not pass: You got 1 for 1"),
    ({"answer": ["def answer(x): ..."]}, "does not pass: "),
    ({"answer": ["def answer(x):", "    return y"]}, "does not pass: Your function stopped in"),
    ({"answer": ["def answer("]}, "cannot be read: SyntaxError"),
    ({"answer": ["other = 1"]}, "cannot be read: KeyError"),
    ({"answer": ["x = exit()"]}, "cannot be read: SystemExit, which ends programs"),
    ({"answer": ["open('owned', 'w')"]}, "holds more than imports, values and definitions"),
    ({"exercise": "90/triple"}, "cannot be checked: lesson 90 has no exercise 'triple'"),
    ({"exercise": "91/double"}, "cannot be checked: there is no lesson 91"),
])  # fmt: skip
def test_an_answer_that_does_not_pass_is_found_even_in_a_forged_file(
    capsys: Any, row: dict[str, Any], words: str
) -> None:
    made(capsys)
    forged(**row)
    said = verified(capsys, 1)
    assert words in said and "0 verified, 1 failed" in said
    assert not Path("owned").exists()


@pytest.mark.parametrize("answer", [[1], "return 1", None])
def test_an_answer_that_is_no_list_of_lines_is_refused(capsys: Any, answer: Any) -> None:
    made(capsys)
    forged(answer=answer)
    assert "was edited after" in verified(capsys, 2)


def test_a_pass_without_an_answer_is_only_claimed(capsys: Any) -> None:
    made(capsys)
    ANSWER.unlink()
    with history.change("90_demo", "exercises", "double") as entry:
        del entry["passed_at"], entry["checks"]  # as earlier versions kept it
    assert cli.main(["certificate"]) == 0
    assert "with an answer that can be run again: 0." in capsys.readouterr().out
    assert "| unknown | unknown | no, it was passed with a version" in FILE.read_text()
    assert "0 verified, 0 failed, 1 claimed" in verified(capsys, 0)


def test_bad_input_is_refused_and_changes_no_file(capsys: Any, tmp_path: Path) -> None:
    def refused(words: str, *more: str) -> str:
        assert cli.main(["certificate", *words.split(), *more]) == 2
        return capsys.readouterr().err

    assert "no exercise has been passed in" in refused("")
    learn.check("double", double)
    capsys.readouterr()
    Path("thesis.md").write_text("all of it\n")
    assert "thesis.md is no certificate, so it is left alone" in refused("--out thesis.md")
    assert Path("thesis.md").read_text() == "all of it\n"
    assert "is no file in a folder that exists" in refused("--out no/where.md")
    assert "--name must be one line of at most 80" in refused("--name", "a\nb")
    assert "thesis.md is not a certificate of this course" in refused("verify thesis.md")
    assert "there is no such file" in refused("verify nowhere.md")
    assert "Did you mean 'verify'?" in refused("verfy x")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert f"no exercise has been passed in {empty}" in refused(f"--folder {empty}")


def test_the_json_has_the_answer_in_lines_that_people_can_read(capsys: Any) -> None:
    text = made(capsys)
    found = json.loads(text.partition("```json\n")[2].removesuffix("\n```\n"))
    assert found["passed"][0]["answer"][0] == "def double(x):"
