"""What a study or a run of lessons would only find out at its end is refused before it starts."""

from __future__ import annotations

import re

import pytest

from dtlib import cli
from dtlib.training import start

BAD = {
    "study strong text --steps 5": "--steps 5 leaves no step to time",
    "study weak images --steps 25 --untimed-steps 25": "--steps 25 leaves no step to time",
    "study sensitivity text --precision fp32,bf16 --steps 2": "--steps 2 leaves no step to time",
    "study strong text --bucket-cap-mb 1": "bucket_cap_mb 1.0 has no effect with strategy single",
    "study strong text --model nona": "nona",
    "study strong text --norm batch": "norm batch has no effect with task text",
    "study strategies text --baseline": "baseline has no effect with task text",
    "study strong text --out /proc/x": "cannot be written to",
    "lessons run 07 -p ranks=abc": "ranks is 'abc'; it must be a whole number",
    "lessons run 07 -p ranks=[": "is not valid YAML",
    "lessons run 00 -p steps=yes": "steps is True; it must be a whole number, like 20",
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


def _label_of_no_class(folder):
    path = folder / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])


# What is wrong with the data themselves: words, what is done to the archive, the sentence.
DATA = [
    ("text --data {story} --tokenizer characters --max-length 8 --num-samples 9999", None,
     r"tokens to train on, enough for \d+ windows of 8 and not for num_samples 9999;"
     r" use --num-samples \d+, or provide more text"),
    ("text --data {story} --global-batch 10000", None,
     r"hold \d+ windows of text, fewer than the global batch of 10000; use a smaller"),
    ("text --data {short}", None, "its valid split has 1 token, but a prediction needs"),
    ("images --data {cifar}", _label_of_no_class, r"test_batch\.bin has the label 10, but"),
    ("images --data {cifar} --global-batch 104", None, "hold 100 pictures, fewer than the global"),
]  # fmt: skip


@pytest.mark.parametrize("command", ["train", "study strategies", "study strong"])
@pytest.mark.parametrize(("words", "damage", "sentence"), DATA)
def test_data_are_looked_into_before_anything_starts(
    words, damage, sentence, command, capsys, monkeypatch, tmp_path, story, cifar_binary
):
    if damage:
        damage(cifar_binary)
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "a.txt").write_text("twenty characters...")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("dtlib.ranks.launcher.launch", None)
    words = words.format(story=story, short=tmp_path / "short", cifar=cifar_binary)
    assert cli.main(f"{command} {words}".split()) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said) and said.count("\n") == 1
    assert not list((tmp_path / "work").iterdir())
