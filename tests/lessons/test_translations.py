"""A lesson in another language: every text has its translation, and the notebook runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from lesson_sources import write

from dtlib import learn
from dtlib.errors import BadInput
from dtlib.learn import history, session
from dtlib.learn.quiz import drawn
from dtlib.learn.source import course, find, lessons
from dtlib.learn.translations import Translated, languages, translated, untranslated
from dtlib.learn.verdicts import Wrong, sentence
from dtlib.lessons import main
from dtlib.lessons.build import KINDS, build_notebooks, derive

SOURCES = Path(__file__).resolve().parents[2] / "lessons_src"
TRANSLATED = [
    translated(lesson, language) for lesson in lessons(SOURCES) for language in languages(lesson)
]
GERMAN = translated(find("00", SOURCES), "de")


@pytest.mark.parametrize("lesson", TRANSLATED, ids=lambda one: f"{one.stem}-{one.language}")
def test_every_text_of_a_translated_lesson_has_a_translation_that_is_not_stale(
    lesson: Translated,
) -> None:
    assert list(untranslated(lesson)) == []


@pytest.mark.parametrize("language", sorted({lesson.language for lesson in TRANSLATED}))
def test_the_frame_of_notebooks_is_translated_and_not_stale(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()
    words = Translated.words

    def noted(self: Translated, text: str) -> str:
        asked.add(" ".join(text.split()))
        return words(self, text)

    monkeypatch.setattr(Translated, "words", noted)
    known: dict[str, str] = {}
    for lesson in TRANSLATED:
        if lesson.language == language:
            fresh = translated(lesson, language)
            known |= fresh.own
            for kind in KINDS:
                derive(fresh, kind)
    assert [text for text in asked - set(known | fresh.shared) if text[:1].isalpha()] == []
    routes = str(course(SOURCES)["routes"])  # some lead to lessons that are still to be written
    assert [text for text in fresh.shared if text not in asked and text not in routes] == []


def small(folder: Path, *entries: str, story: str = "Ranks add `x` up. They wait.") -> Translated:
    """A lesson of one paragraph and one mistake, and the German that a test gives it."""
    sidecar = "mistakes: {f: {k: 'Rank {r} has {got:.2f}, not a sum.'}}"
    path = write(folder, "80", f"# %% [markdown]\n# {story}", sidecar=sidecar)
    whole = {
        "Lesson 80": "Lektion 80", "run a cell": "eine Zelle ausführen", "one": "eins",
        "two": "zwei", "three": "drei", "Ranks add `x` up. They wait.": "Ränge addieren `x`.",
        "Rank {r} has {got:.2f}, not a sum.": "Rang {r} hat {got:.2f}, keine Summe.",
    }  # fmt: skip
    whole |= dict(entry.split(" => ") for entry in entries)
    text = json.dumps({key: value for key, value in whole.items() if value}, ensure_ascii=False)
    (path.parent / "de.yaml").write_text(text, encoding="utf-8")
    return translated(find("80", folder), "de")


SUM = "Rank {r} has {got:.2f}, not a sum."
STORY = "Ranks add `x` up. They wait."


@pytest.mark.parametrize(("entry", "says"), [
    ("one => ", "has no translation of “one”"),
    (f"{STORY} => ", "has no translation of “Ranks add `x` up. They wait.”"),
    (f"{SUM} => ", "has no translation of “Rank {r} has {got:.2f}, not a sum.”"),
    ("four => vier", "translates what is no longer in the lesson: “four”"),
    ("two => two", "leaves in English: “two”"),
    (f"{STORY} => Ränge addieren `x`. They wait.", "leaves in English: “They wait.”"),
    (f"{STORY} => Ränge addieren `y`.", "has `x` in only one of the languages of “Ranks add"),
    (f"{SUM} => Rang {{r}} hat keine Summe.", "has {got:.2f} in only one of the languages of"),
    (f"{SUM} => Rang {{r}} hat {{got:.2f}} {{n}}.", "has {n} in only one of the languages of"),
])  # fmt: skip
def test_a_fault_is_named(tmp_path: Path, entry: str, says: str) -> None:
    assert list(untranslated(small(tmp_path))) == []
    faults = list(untranslated(small(tmp_path, entry)))
    assert any(fault.startswith(f"80_lesson80/de.yaml {says}") for fault in faults), faults


def test_an_empty_translation_is_none(tmp_path: Path) -> None:
    lesson = small(tmp_path)
    lesson.own["one"] = ""
    assert "80_lesson80/de.yaml has no translation of “one”" in list(untranslated(lesson))


def test_english_that_changed_makes_its_translation_stale(tmp_path: Path) -> None:
    lesson = small(tmp_path, story="Ranks add `x` up. They never wait.")
    assert list(untranslated(lesson)) == [
        "80_lesson80/de.yaml has no translation of “Ranks add `x` up. They never wait.”",
        f"80_lesson80/de.yaml translates what is no longer in the lesson: “{STORY}”",
    ]
    assert "They never wait." in derive(lesson, "student")  # English until somebody translates it


def test_what_is_the_same_in_both_languages_is_said(tmp_path: Path) -> None:
    lesson = small(tmp_path, "two => (same)")
    assert list(untranslated(lesson)) == []
    assert lesson.header["objectives"] == ["eins", "two", "drei"]


def test_build_writes_the_translation_and_names_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, notebooks = tmp_path / "lessons_src", tmp_path / "notebooks"
    monkeypatch.setenv("DTLIB_LESSONS", str(sources))
    room = small(sources, "two => ").room
    assert main(["build"]) == 0
    assert "80_lesson80/de.yaml has no translation of “two”" in capsys.readouterr().out
    german = notebooks / "de/student/80_lesson80.ipynb"
    assert "# 80 Lektion 80" in german.read_text(encoding="utf-8")
    assert "# 80 Lesson 80" in (notebooks / "student/80_lesson80.ipynb").read_text()
    with pytest.raises(BadInput, match=r"lesson 80 has no translation 'fr'; it has de\."):
        main(["run", "80", "--language", "fr"])
    (room / "de.yaml").unlink()
    assert german in build_notebooks(sources, notebooks)
    assert not german.exists()


def test_a_file_that_is_no_translation_is_refused(tmp_path: Path) -> None:
    lesson = small(tmp_path)
    (lesson.room / "de.yaml").write_text("one: [eins]")
    with pytest.raises(BadInput, match=r"80_lesson80/de\.yaml is not a mapping of each English"):
        derive(translated(lesson, "de"), "student")


def test_code_is_the_same_but_for_the_line_that_names_the_language() -> None:
    def code(lesson: Any) -> list[str]:
        cells = json.loads(derive(lesson, "instructor"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]

    english, german = code(find("00", SOURCES)), code(GERMAN)
    changed = [pair for pair in zip(english, german, strict=True) if pair[0] != pair[1]]
    assert [new for _, new in changed] == [
        'from dtlib import learn\n\nlearn.start("00", language="de")'
    ]


def test_a_lesson_in_german_speaks_german(
    own_folder: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DTLIB_LESSONS", str(SOURCES))
    learn.start("00", language="de")
    lesson = session.current()
    with history.change(lesson.stem, "predictions", "two_against_one") as entry:
        entry.update(value="auf sechs Stellen gleich", sure=True)
    learn.measured("two_against_one", "the same to six digits")
    said = capsys.readouterr().out
    assert "As predicted. Beide Läufe folgen dem mittleren Gradienten" in said
    learn.hint("my_share")
    assert "Verteilen Sie die Samples wie Spielkarten" in capsys.readouterr().out
    facts = {"rank": 1, "world_size": 1, "size": 3, "missing": "2"}
    told = sentence(lesson.sidecar, "my_share", Wrong("missing", **facts))
    assert told.startswith("Bei 3 Samples auf 1 Rang hat kein Rang 2 genommen.")
    asked = [question["variants"][0]["text"] for question in drawn(lesson.sidecar["quiz"], [])]
    assert asked[0].startswith("Angenommen, zwei Läufe enden mit Loss-Werten, die 1.0e-07")


@pytest.mark.slow
@pytest.mark.parametrize("lesson", TRANSLATED, ids=lambda one: f"{one.stem}-{one.language}")
def test_a_translated_notebook_runs_to_its_end(
    lesson: Translated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTLIB_LESSONS", str(SOURCES))
    words = ["run", lesson.number, "--language", lesson.language, "--out", str(tmp_path)]
    assert main(words) == 0
    done = tmp_path / lesson.language / "student" / f"{lesson.stem}.ipynb"
    said = done.read_text(encoding="utf-8")
    for prediction in lesson.sidecar["predictions"].values():
        assert prediction["question"] in " ".join(said.split())
