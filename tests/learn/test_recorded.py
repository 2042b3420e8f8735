"""Recorded results: read with where they come from, refused without, made anew from a run."""

import json

import pytest

from dtlib.errors import BadInput
from dtlib.learn.recorded import ABOUT as KEYS
from dtlib.learn.recorded import keep_record, recorded

ABOUT = {"device": "a GPU", "versions": {"torch": "2.14"}, "date": "2026-11-28", "commit": "abc"}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    for number in ("17", "28"):
        (tmp_path / f"{number}_x" / "records").mkdir(parents=True)
        (tmp_path / f"{number}_x" / "lesson.py").touch()
    monkeypatch.setenv("DTLIB_LESSONS", str(tmp_path))


def write(tmp_path, name: str, text: str) -> None:
    (tmp_path / f"{name[:2]}_x" / "records" / name).write_text(text)


def test_a_record_says_on_what_it_was_measured(tmp_path, capsys):
    write(tmp_path, "17_x.json", json.dumps({"about": ABOUT, "results": {"seconds": [1, 2]}}))
    found = recorded("17_x")
    assert found["seconds"] == [1, 2] and list(found) == ["seconds"] and len(found) == 1
    said = capsys.readouterr().out
    assert "Recorded results. Measured on a GPU, 2026-11-28, with torch 2.14; commit abc." in said


def test_a_table_of_runs_says_it_in_its_columns(tmp_path, capsys):
    lines = ["step_time_s,device,versions,date,commit", "0.5,H100,torch 2.11,2026-11-28,abc"]
    write(tmp_path, "28_x.csv", "\n".join([*lines, lines[1].replace("0.5", "0.4")]))
    found = recorded("28_x")
    assert [row["step_time_s"] for row in found["rows"]] == ["0.5", "0.4"]
    assert "Measured on H100, 2026-11-28, with torch 2.11; commit abc." in capsys.readouterr().out


@pytest.mark.parametrize("key", KEYS)
def test_a_record_without_its_origin_is_refused(tmp_path, key):
    about = {k: v for k, v in ABOUT.items() if k != key}
    write(tmp_path, "17_x.json", json.dumps({"about": about, "results": {}}))
    with pytest.raises(BadInput, match=f"does not give its {key}"):
        recorded("17_x")


def test_a_wrong_name_is_refused_with_the_nearest_and_one_of_no_lesson_too(tmp_path):
    write(tmp_path, "17_deepspeed.json", json.dumps({"about": ABOUT, "results": {}}))
    with pytest.raises(BadInput, match=r"no record 17_deepsped in .*mean .17_deepspeed"):
        recorded("17_deepsped")
    with pytest.raises(BadInput, match="belongs to no lesson here"):
        keep_record("99_x", {})


@pytest.mark.parametrize("text", ["{", "[]", '{"about": {}}', '{"about": 1, "results": {}}'])
def test_a_broken_record_is_refused_in_a_sentence(tmp_path, text):
    write(tmp_path, "17_x.json", text)
    with pytest.raises(BadInput, match="cannot be read"):
        recorded("17_x")


def test_what_is_kept_is_read_again_with_todays_origin(capsys):
    path = keep_record("17_new", {"losses": {"stage 1": [1.5]}}, packages=("pyyaml",))
    assert path.name == "17_new.json"
    found = recorded("17_new")
    assert found["losses"] == {"stage 1": [1.5]}
    assert set(found.about["versions"]) == {"Python", "torch", "pyyaml"}
    assert "CPU cores" in found.about["device"] or "×" in found.about["device"]
