"""A setting that nothing reads is refused, whichever setting it is."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dtlib import cli
from dtlib.config import CHOICES, RunConfig
from dtlib.config.belonging import BELONGS
from dtlib.errors import BadInput

# Another value than the default for each setting of the table.
OTHER: dict[str, Any] = {
    "activation_checkpointing": "full", "compile_mode": "reduce-overhead",
    "norm": "group", "width": 8, "augment": False, "channels_last": True, "baseline": True,
    "loader": "dataloader", "max_length": 16, "dropout": 0.1, "tokenizer": "gpt2",
    "text_column": "body",
    "momentum": 0.5, "adam_eps": 1e-8, "lr_floor": 0.5, "skip_limit": 3, "workers": 2,
    "nvtx": True, "nvtx_first": 6, "nvtx_last": 8, "pad_vocab_to": 128, "lora": 8,
}  # fmt: skip
VALUES = {**CHOICES, "nvtx": (False, True), "compile": (False, True)}


def made(decides: str, value: Any, **more: Any) -> RunConfig:
    """A run in which one setting decides, on the task that reads what depends on it."""
    task = "images" if decides == "loader" else "text"
    return RunConfig(**{"task": task, decides: value, **more})


def test_the_table_names_what_exists_and_the_test_walks_through_all_of_it():
    names = {field.name for field in dataclasses.fields(RunConfig)}
    assert OTHER.keys() == BELONGS.keys() <= names
    for decides, where in BELONGS.values():
        assert decides in names and set(where) < set(VALUES[decides])


@pytest.mark.parametrize("key", BELONGS)
def test_a_setting_without_effect_is_refused_and_one_with_effect_is_not(key):
    decides, where = BELONGS[key]
    for value in VALUES[decides]:
        if value in where:
            made(decides, value, **{key: OTHER[key]})
            continue
        with pytest.raises(BadInput, match=f"{key}.* has no effect with .*; leave it out, or use "):
            made(decides, value, **{key: OTHER[key]})


@pytest.mark.parametrize(
    "words",
    [
        "images --dropout 0.1", "images --max-length 16", "text --norm group", "text --baseline",
        "text --no-augment", "text --momentum 0.5", "text --strategy single --bucket-cap-mb 1",
        # what is there by default was asked for all the same
        "images --dropout 0", "text --norm batch", "text --augment", "text --momentum 0.9",
        "text --lr-floor 0.1 --schedule constant", "text --skip-limit 20", "images --workers 0",
    ],
)  # fmt: skip
def test_a_flag_without_effect_starts_nothing(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *words.split()]) == 2
    assert " has no effect with " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
