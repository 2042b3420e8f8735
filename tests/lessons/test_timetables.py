"""Timetables: clock times that add up, breaks where work pauses, and only lessons that exist."""

from pathlib import Path

import pytest
import yaml
from lesson_sources import write

from dtlib.errors import BadInput
from dtlib.learn.source import course, lessons
from dtlib.lessons.teaching.exercises import exercises, minutes
from dtlib.lessons.teaching.plans import OPEN, STRETCH, sessions, timetable
from dtlib.lessons.teaching.timetable import Block, Break, Part, Row, clock, lay_out, shown, up

SOURCES = Path(__file__).resolve().parents[2] / "lessons_src"
LESSONS = {lesson.number: lesson for lesson in lessons(SOURCES)}
KINDS = ("stops", "days", "weeks")


def worked(rows: list[Row]) -> int:
    return sum(row.end - row.start for row in rows if row.work)


def route(kind: str, sources: Path = SOURCES) -> dict:
    return next(route for route in course(sources)["routes"] if kind in route)


@pytest.mark.parametrize("kind", KINDS)
def test_every_session_adds_up_and_ends_in_time(kind):
    plan = route(kind)["timetable"]
    for name, rows in sessions(kind, SOURCES):
        assert rows[0].start == clock(plan["start"]), name
        assert all(row.start < row.end for row in rows), name
        assert [row.end for row in rows[:-1]] == [row.start for row in rows[1:]], name
        assert all(row.start % 5 == 0 for row in rows), name
        assert worked(rows) == plan["minutes"], name
        breaks = sum(one["minutes"] for one in plan.get("breaks") or [])
        assert rows[-1].end == rows[0].start + plan["minutes"] + breaks, name
        for row, one in zip([r for r in rows if not r.work], plan.get("breaks") or [], strict=True):
            assert abs(row.start - clock(one["at"])) <= 30, (name, row)  # half of the longest part


def test_the_day_has_six_hours_of_work():
    ((_, rows),) = sessions("stops", SOURCES)
    assert worked(rows) == 6 * 60
    titles = " ".join(row.title for row in rows)
    for number in ("00", "07", "08", "16"):
        assert f"{number} {LESSONS[number].header['title']}" in titles


@pytest.mark.parametrize("kind", KINDS)
def test_a_lesson_has_the_minutes_of_what_it_lists_and_its_core_first(kind):
    for name, rows in sessions(kind, SOURCES):
        for number, lesson in LESSONS.items():
            own = [row for row in rows if row.title.startswith(f"{number} ")]
            if not own:
                continue
            listed = {int(label.removesuffix(STRETCH)) for row in own for label in row.labels}
            taken = [one for one in exercises(lesson) if one.number in listed]
            needed = lesson.header["minutes"]["read"] + minutes(taken)
            # two halves of an exercise have one number, and may be split between core and stretch
            assert up(needed) >= worked(own) >= up(lesson.header["minutes"]["read"]), (name, number)
            core = {one.number for one in exercises(lesson) if one.core}
            assert core <= listed, (name, number)


def test_every_lesson_of_the_path_that_exists_is_in_the_long_routes():
    for kind in ("days", "weeks"):
        titles = {row.title for _, rows in sessions(kind, SOURCES) for row in rows}
        there = [number for number in course(SOURCES)["path"] if number in LESSONS]
        assert all(f"{n} {LESSONS[n].header['title']}" in titles for n in there), kind


SIDECAR = """
hints: {{first{n}: [a, b], second{n}: [a, b]}}
mistakes: {{first{n}: {{k: "why?"}}, second{n}: {{k: "why?"}}}}
notes: {{first{n}: {{minutes: {first}}}, second{n}: {{minutes: {second}}}}}
"""


def small(folder: Path, number: str, read: int, first: int, second: int, stretch: bool = True):
    """A lesson with two exercises, the second of them stretch."""
    tags = '["exercise", "stretch"]' if stretch else '["exercise"]'
    write(
        folder, number,
        f'# %% tags=["exercise"]\ndef first{number}():\n    pass',
        f"# %% tags={tags}\ndef second{number}():\n    pass",
        sidecar=SIDECAR.format(n=number, first=first, second=second),
        minutes=f"{{read: {read}, exercises: {first + second}}}",
    )  # fmt: skip


def plan(folder: Path, work: int, stops: str = "01 02", **more) -> Path:
    timetable = {"start": "09:00", "minutes": work, **more}
    one = {"have": "a day", "stops": dict.fromkeys(stops.split(), "x"), "timetable": timetable}
    (folder / "path.yaml").write_text(yaml.safe_dump({"routes": [one]}, sort_keys=False))
    return folder


BOTH = ("1", f"2{STRETCH}")  # of a lesson with a core exercise and another one


def said(folder: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    ((_, rows),) = sessions("stops", folder)
    return [(shown(row.start), row.title, row.labels) for row in rows]


def test_time_that_is_left_goes_to_further_exercises_but_not_that_of_questions(tmp_path):
    small(tmp_path, "01", 10, 10, 20)
    small(tmp_path, "02", 10, 10, 10)
    assert said(plan(tmp_path, 40))[0] == ("09:00", "01 Lesson 01", ("1",))
    assert said(plan(tmp_path, 60))[0] == ("09:00", "01 Lesson 01", BOTH)
    kept = said(plan(tmp_path, 60, questions=10))
    assert [row[2] for row in kept[:2]] == [("1",), BOTH]  # the second fits, the first not
    assert kept[2][:2] == ("09:50", "Questions, and catching up")


def test_a_full_day_drops_exercises_of_the_longest_lesson_and_then_refuses(tmp_path):
    small(tmp_path, "01", 10, 10, 20, stretch=False)
    small(tmp_path, "02", 10, 10, 10, stretch=False)
    assert [row[2] for row in said(plan(tmp_path, 70))] == [("1", "2"), ("1", "2")]
    assert [row[2] for row in said(plan(tmp_path, 50))[:2]] == [("1",), ("1", "2")]
    with pytest.raises(BadInput, match="a day has 35 minutes for lessons, and 01, 02 need 40"):
        said(plan(tmp_path, 35))


def test_a_stop_that_does_not_exist_leaves_its_time_open(tmp_path):
    small(tmp_path, "01", 10, 10, 20)
    assert said(plan(tmp_path, 120)) == [
        ("09:00", "01 Lesson 01", BOTH), ("09:40", OPEN, ()),
    ]  # fmt: skip
    assert [row[1] for row in said(plan(tmp_path, 120, stops="77"))] == [OPEN]
    assert "01 Lesson 01: exercises 1 and 2\\* |" in timetable("stops", plan(tmp_path, 120))


def test_an_exercise_that_is_left_for_home_is_not_in_the_plan(tmp_path):
    small(tmp_path, "01", 10, 10, 20)
    assert said(plan(tmp_path, 120, home={"01": [2]}))[0] == ("09:00", "01 Lesson 01", ("1",))


def test_a_page_that_asks_for_a_route_that_is_not_there_is_told():
    with pytest.raises(BadInput, match="no route with `months` and a `timetable`"):
        timetable("months", SOURCES)


HOUR = Block("A", (Part("1", 20), Part("2", 20), Part("3", 20)))


@pytest.mark.parametrize(("at", "expected"), [
    (clock("09:25"), "09:20"), (clock("09:31"), "09:40"), (clock("09:05"), None),
    (clock("11:00"), None),
])  # fmt: skip
def test_a_break_falls_where_a_part_ends(at, expected):
    rows = lay_out([HOUR], clock("09:00"), [Break(at, 15, "tea")])
    assert [shown(row.start) for row in rows if not row.work] == ([expected] if expected else [])
    assert worked(rows) == 60


def test_a_second_break_counts_the_first():
    rows = lay_out([HOUR, HOUR], clock("09:00"), [Break(560, 15, "tea"), Break(615, 60, "lunch")])
    assert [(shown(row.start), row.title) for row in rows] == [
        ("09:00", "A"), ("09:20", "tea"), ("09:35", "A"), ("10:15", "lunch"), ("11:15", "A"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", [540, "9.30", "9:3", "ab:30", "10:75", ""])
def test_a_time_that_is_none_is_refused(text):
    with pytest.raises(BadInput, match="is no time of day"):
        clock(text)


def test_the_core_of_a_lesson_is_what_its_checks_say():
    """`stretch` marks the exercise's cell and that of its check alike."""
    for lesson in LESSONS.values():
        checks = {
            one.name: "stretch" not in cell.tags
            for cell in lesson.cells
            for one in exercises(lesson)
            if cell.kind == "code" and f'learn.check("{one.name}"' in cell.text
        }
        assert {one.name: one.core for one in exercises(lesson)} == checks, lesson.number


def test_exercises_are_numbered_as_their_headings_say():
    found = exercises(LESSONS["07"])
    assert [(one.number, one.name) for one in found] == [
        (1, "global_mean"), (2, "pass_right"), (3, "ring_reduce_scatter"), (3, "ring_all_reduce"),
        (4, "ring_time"), (4, "tree_time"),
    ]  # fmt: skip
