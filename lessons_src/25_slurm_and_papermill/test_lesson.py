"""Lesson 25 says what is true: its patient, its predictions, its recorded jobs."""

import re

import pytest

from dtlib.errors import DtlibError
from dtlib.learn import source
from dtlib.learn.recorded import recorded
from dtlib.learn.verdicts import Wrong
from tests.prediction_cases import right_options

from . import cluster, practice_cluster
from .bank import limit, ranks
from .exercises import EXERCISES

LESSON = source.find("25")


def test_the_patient_waits_for_nodes_that_all_call_themselves_0() -> None:
    (cell,) = [cell.text for cell in LESSON.cells if "This line hangs" in cell.text]
    (line,) = re.findall(r"```\n(.*?)```", cell, re.DOTALL)
    with pytest.raises(Wrong) as found:
        EXERCISES["start_ranks"].check(lambda: line)
    assert found.value.mistake == "same_place"


@pytest.mark.parametrize(
    ("exercise", "key"),
    [("survive", key) for key in limit.ENDLESS] + [("start_ranks", key) for key in ranks.ENDLESS],
)
def test_a_script_that_does_not_end_is_told_so(
    exercise: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(practice_cluster, "SECONDS", 1.5)
    monkeypatch.setattr(practice_cluster, "AFTER", 0.5)
    script = {**limit.ENDLESS, **ranks.ENDLESS}[key]
    with pytest.raises(Wrong) as found:
        EXERCISES[exercise].check(lambda: script)
    assert found.value.mistake == key


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("who_expands", "0, 0, 0"),
        ("state_of_false", "COMPLETED"),
        ("when_trapped", "when the training ends by itself"),
        ("typo", "it runs to the end with steps = 2"),
    ],
)
def test_what_is_measured_is_an_option(name: str, measured: str) -> None:
    assert right_options("25", name, measured) == [measured]


def test_the_record_holds_every_job_of_the_lesson() -> None:
    named = set(re.findall(r'cluster\.scene\("(\w+)"', LESSON.text))
    scenes = recorded("25_slurm")["scenes"]
    assert named == set(scenes) and len(named) == 8
    states = {name: [row[1] for row in scene["states"]] for name, scene in scenes.items()}
    assert states["told"].count("RUNNING") == 2 and states["told"][-1] == "COMPLETED"
    assert states["notebook"][-1] == "FAILED"
    assert states["both"].count("RUNNING") == 2 and states["both"][-1] == "COMPLETED"


def test_a_job_of_another_script_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    session = cluster.Cluster("25_slurm")
    assert not session.live
    monkeypatch.delenv("DTLIB_STRICT", raising=False)
    session.scene("hello", "other")
    assert "ran with the course's own script" in capsys.readouterr().out
    monkeypatch.setenv("DTLIB_STRICT", "1")
    with pytest.raises(DtlibError, match="recorded with another script"):
        session.scene("hello", "other")
    with pytest.raises(DtlibError, match="nothing to record"):
        session.keep()
