"""The operators on small sources, the sample, and what is kept of the counts."""

import subprocess
import sys
from pathlib import Path

import pytest

from dtlib.learn import ladder, source
from dtlib.learn.answers import Answer
from mutation import outcomes, record, trial
from mutation.mutants import CAP, Mutant, all_of, make, mutants_of, of_ranks, sample, solution_of

LESSONS = [lesson for lesson in source.lessons() if lesson.sidecar.get("mistakes")]
CASES = [
    ("drop", "a = 1\nreturn a", "return a"),
    ("drop", "h.wait()\nreturn a", "return a"),
    ("unwrap", "if x:\n    a()\nelse:\n    b()", "b()"),
    ("unwrap", "for a in x:\n    b(a)", "for a in x:\n    b(a)\n    break"),
    ("out_of_loop", "for a in x:\n    b()\n    c()", "for a in x:\n    b()\nc()"),
    ("in_place", "x += y", "x = x + y"),
    ("in_place", "x = x + y", "x += y"),
    ("in_place", "c[i] = y", "own = y"),
    ("overwrite", "x += y", "x = y"),
    ("swap_statements", "a()\nb()", "b()\na()"),
    ("swap_arguments", "return f(x, y)", "return f(y, x)"),
    ("swap_arguments", "return x - y", "return y - x"),
    ("off_by_one", "return x[1]", "return x[0]"),
    ("off_by_one", "return range(x)", "return range(x + 1)"),
    ("off_by_one", "return x[:y]", "return x[:y - 1]"),
    ("rounding", "return x // y", "return -(-(x / y) // 1)"),
    ("rounding", "return -(-x // y)", "return x / y // 1"),
    ("rounding", "return math.ceil(x)", "return round(x)"),
    ("rounding", "return 2 * math.ceil(x)", "return -(-(2 * x) // 1)"),
    ("rounding", "return (x - 1).bit_length()", "return round(__import__('math').log2(x - 1 + 1))"),
    ("comparison", "return x < y", "return x <= y"),
    ("condition", "return x and y", "return x or y"),
    ("condition", "return [a for a in x if a]", "return [a for a in x]"),
    ("arithmetic", "return x + y", "return x - y"),
    ("arithmetic", "return (x + 1) % n", "return x + 1"),
    ("literal", "return x + n", "return x + 3"),
    ("literal", "return dist.get_world_size()", "return 2"),
    ("constant", "return ('a', 'b')", "return ('b',)"),
    ("view", "return x.clone()", "return x"),
    ("view", "return list(x)", "return x"),
    ("callers_data", "return reversed(x)", "return (x.reverse(), x)[1]"),
    ("callers_data", "return sorted(x)", "return (x.sort(), x)[1]"),
    ("callers_data", "return x.div_(n)", "return x.div(n)"),
    ("dtype", "return x.numel() * x.element_size()", "return x.numel() * 4"),
    ("dtype", "return x.float()", "return x"),
    ("keyword", "return f(x, async_op=True)", "return f(x)"),
    ("other_function", "return min(x)", "return max(x)"),
    (
        "kept_state",
        "a = [x]\nreturn a",
        "if 'a' not in _kept:\n    _kept['a'] = [x]\na = _kept['a']\nreturn a",
    ),
]


def function(body: str, more: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"def f(x, y, n{more}):\n{lines}"


def made(text: str) -> list[Mutant]:
    return make(text, set(range(1, 99)), {"n": 3})


@pytest.mark.parametrize(("operator", "body", "other"), CASES)
def test_an_operator_makes_its_mutant(operator: str, body: str, other: str) -> None:
    texts = [mutant.text for mutant in made(function(body)) if mutant.operator == operator]
    more = ", *, _kept={}" if operator == "kept_state" else ""
    assert function(other, more) in texts, texts


def test_a_rank_and_the_number_of_ranks_may_become_literals() -> None:
    lesson = source.find("07")
    check = ladder.find_exercise(lesson, "pass_right")
    names = {mutant.name for mutant in all_of(lesson, check) if mutant.operator == "literal"}
    assert any("% 3)" in name for name in names)
    text = "def f():\n    rank, n = dist.get_rank(), dist.get_world_size()\n    m = n"
    assert of_ranks(text, check) == {"rank": 0, "n": 3}


def test_a_mutant_is_named_by_what_differs() -> None:
    names = {mutant.name for mutant in made(function("a = x\nreturn a + 1"))}
    assert "arithmetic: return a + 1 => return a - 1" in names
    assert "drop: a = x =>" in names
    [moved] = [m for m in made(function("a()\nb()\nc()")) if m.text == function("b()\na()\nc()")]
    assert moved.name == "swap_statements: b() => moved from line 3 to 2"


def test_only_what_a_student_writes_is_changed() -> None:
    text = function("a = x + 1\nreturn a * 2")
    assert not [m for m in make(text, {3}) if "a = x + 1" not in m.text]


def test_signature_and_docstring_stay() -> None:
    text = 'def f(x=1):\n    """Say 1."""\n    return x'
    assert all(m.text.startswith('def f(x=1):\n    """Say 1."""') for m in made(text))


def test_a_sample_is_the_same_each_time_and_has_of_every_operator() -> None:
    many = [Mutant("much", f"m{k}", "") for k in range(99)] + [Mutant("rare", "r", "")]
    chosen = sample(many, "seed", 10)
    assert chosen == sample(many, "seed", 10) != sample(many, "other", 10)
    assert len(chosen) == 10
    assert many[-1] in chosen


def test_the_region_of_a_solution_is_found_in_every_exercise() -> None:
    for lesson in LESSONS:
        for exercise in lesson.sidecar["mistakes"]:
            text, region = solution_of(lesson, exercise)
            assert text == lesson.definition(exercise), exercise
            assert region, exercise
            assert mutants_of(lesson, ladder.find_exercise(lesson, exercise)), exercise


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_every_survivor_that_was_counted_has_its_verdict(lesson: source.Lesson) -> None:
    told = record.verdicts(lesson)
    for exercise, count in record.kept(lesson).items():
        assert count["mutants"] == count["refused"] + len(count["survivors"]) <= CAP
        assert set(count["survivors"]) == set(told.get(exercise, {})), exercise
        assert all(told.get(exercise, {}).values())


def test_the_table_is_what_was_kept() -> None:
    assert record.TABLE.read_text() == record.table()


@pytest.mark.parametrize(("number", "exercise"), [("21", "serial_share"), ("27", "share_of_peak")])
def test_the_count_of_a_cheap_exercise_is_still_true(number: str, exercise: str) -> None:
    findings = trial.try_exercise(number, exercise)
    survivors = [finding.mutant.name for finding in findings if finding.survived]
    assert survivors == record.kept(source.find(number))[exercise]["survivors"]


def test_a_survivor_without_a_verdict_fails_the_command(monkeypatch, capsys) -> None:
    import runpy

    main = runpy.run_path(str(Path(trial.__file__).with_name("__main__.py")))
    mutant = Mutant("drop", "drop: a =>", "def f():\n    pass")
    findings = [trial.Finding(mutant, "passed")]
    count = {"mutants": 1, "refused": 0, "specific": 0, "survivors": [mutant.name], "keys": {}}
    assert main["report"](LESSONS[0], "f", findings, {}, count, False) == 1
    assert "NO VERDICT  drop: a =>" in capsys.readouterr().out
    assert main["report"](LESSONS[0], "f", findings, {mutant.name: "why"}, count, False) == 0


def test_a_mutant_that_says_nothing_is_lost_and_the_next_one_is_judged(monkeypatch) -> None:
    says = "import json, sys, time; print(json.dumps([int(sys.argv[1]), 'passed']), flush=True); "
    started, popen = [], subprocess.Popen

    def start(command, **more):
        started.append(command[-2])
        code = says + "time.sleep(60 if sys.argv[1] == '0' else 0)"
        return popen([sys.executable, "-c", code, command[-2]], **more)

    monkeypatch.setattr(trial.subprocess, "Popen", start)
    monkeypatch.setattr(trial, "QUIET", 5.0)
    findings = trial.try_exercise("21", "serial_share", 3)
    assert [finding.key for finding in findings] == ["passed", "lost", "passed"]
    assert started == ["0", "2"]


def test_results_are_changed_and_what_needs_a_look_is_listed() -> None:
    found = list(outcomes.tried("21", "serial_share"))
    assert {one.change for one in found if one.right} == {
        "numbers of NumPy", "float32 for float", "tensors for numbers"
    }  # fmt: skip
    assert outcomes.faults(found) == []
    lax = [
        outcomes.Said("nan", False, "passed", ""),
        outcomes.Said("an array", True, "kind", "No?"),
    ]
    assert outcomes.faults(lax) == [
        "   WRONG, ACCEPTED  nan", "   RIGHT, REFUSED  an array [kind] No?"
    ]  # fmt: skip


@pytest.mark.parametrize(("case", "lines"), [(1, 1), (1.2345, 0), (2, 0)])
def test_a_check_whose_cases_show_no_rounding_is_listed(case, lines, monkeypatch) -> None:
    cases = [("whole", (2,)), ("last", (case,))]
    exercise = Answer(lambda x: x / 2, cases, other="unrecognised")
    monkeypatch.setattr(outcomes.ladder, "find_exercise", lambda *of: exercise)
    found = outcomes.faults(list(outcomes.tried("21", "serial_share")))
    line = "   WRONG, ACCEPTED  three decimals, which no case shows"
    assert found.count(line) == lines


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ("whole numbers", {"a": [1.5, "b"]}, {"a": [1, "b"]}),
        ("all but the last", (1, 2), (1,)),
        ("the last twice", [1, 2], [1, 2, 2]),
        ("two digits", 1.234, 1.2),
        ("whole numbers", float("inf"), float("inf")),
    ],
)
def test_a_change_of_a_result(change, before, after) -> None:
    assert outcomes.WRONG[change](before) == after
