"""What a study or a run of lessons would only find out at its end is refused before it starts."""

from __future__ import annotations

import pytest

from dtlib import cli
from dtlib.training import start

BAD = {
    "study strong text --steps 5": "--steps 5 leaves no step to time",
    "study weak images --steps 25 --untimed-steps 25": "--steps 25 leaves no step to time",
    "study sensitivity text --precision fp32,bf16 --steps 2": "--steps 2 leaves no step to time",
    "study strong text --bucket-cap-mb 1": "bucket_cap_mb 1.0 means nothing to strategy single",
    "study strong text --model nona": "nona",
    "study strong text --norm batch": "norm batch means nothing to task text",
    "study strategies text --baseline": "baseline means nothing to task text",
    "study strong text --out /proc/x": "cannot be written to",
    "lessons run 07 -p ranks=abc": "ranks is 'abc'; it must be a whole number",
    "lessons run 07 -p ranks=[": "is no YAML",
    "lessons run 00 -p steps=yes": "steps is True; it must be a whole number, as 20 is",
    "lessons run 00 -p device=[1]": "device is [1]; it must be text",
    "lessons run 00 -p steps=2.5": "steps is 2.5; it must be a whole number",
    "lessons run 07 --out /proc/x": "cannot be written to",
}


@pytest.mark.parametrize("words", BAD)
def test_nothing_starts_and_nothing_is_written(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(start, "train", None)  # calling it would be a TypeError
    monkeypatch.setattr("dtlib.lessons.run.run_jobs", None)
    assert cli.main(words.split()) == 2
    said = capsys.readouterr().err
    assert BAD[words] in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())
