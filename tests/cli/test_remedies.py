"""What an error proposes is accepted next: each remedy is followed, and nothing is started."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import shutil
import sys

import pytest

from dtlib import cli, strategies
from dtlib.config import CHOICES, RunConfig
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks import launcher
from dtlib.strategies.needs import OPTIONS
from tests.config.test_belonging import OTHER

BATCH = "train text --global-batch 16 --micro-batch 4 --accumulation"
# A line that is refused, the words that it is answered with, and the line that follows them.
REMEDIES = [
    ("trian text", "Did you mean 'train'", "train text"),
    ("train imges", "Did you mean 'images'", "train images"),
    ("train text --gobal-batch 8", "Did you mean '--global-batch'", "train text --global-batch 8"),
    ("train text --out old", "add --resume", "train text --out old --resume"),
    ("train text --skip-limit 5", "or use fp16", "train text --skip-limit 5 --precision fp16"),
    ("train text --cpu-offload", "or use fsdp", "train text --cpu-offload --strategy fsdp"),
    ("train text --workers 1", "leave it out", "train text"),
    ("train text --strategy single --ranks 2", "use strategy ddp", "train text --ranks 2"),
    (f"{BATCH} 1 --ranks 2", "run 4 ranks", f"{BATCH} 1 --ranks 4"),
    (
        f"{BATCH} 2 --strategy single",
        "; give only two",
        f"{BATCH.removesuffix(' --accumulation')} --strategy single",
    ),
    ("train text --precision tf32 --device cpu", "use --precision fp32", "train text --device cpu"),
    ("train images --channels-last --strategy fsdp", "use ddp", "train images --channels-last"),
    ("train text --channels-last --strategy fsdp", "; leave it out.\n", "train text"),
    (
        "train images --channels-last --strategy fsdp --cpu-offload",
        "or use ddp without cpu_offload",
        "train images --channels-last",
    ),
    (
        "train text --strategy offload --zero-stage 3 --precision fp64",
        "fp64 needs ddp without zero_stage or fsdp without zero_stage",
        "train text --precision fp64",
    ),
    (
        "train text --strategy fsdp --cpu-offload --precision fp16 --skip-limit 3",
        "use precision bf16 without skip_limit",
        "train text --strategy fsdp --cpu-offload --precision bf16",
    ),
    ("study strong text --monitr 1", "Did you mean '--monitor'", "study strong text --parts"),
    ("study strong text --stesp 1", "Did you mean '--steps'", "study strong text --parts"),
    ("study strong --reapets 1", "Did you mean '--repeats'", "study strong --parts"),
    ("train text --steps 3 --epochs 1", "give one", "train text --epochs 1"),
    (
        "profile nsys --print -- train text --steps 4",
        "smaller --first",
        "profile nsys --print --first 4 -- train text --steps 4",
    ),
    ("study weak text --parts --part x", "--parts lists the runs", "study weak text --parts"),
    ("study strong text --json", "add --parts", "study strong text --json --parts"),
    ("fetch cifar10 --json", "add --urls", "fetch cifar10 --json --urls"),
    ("ops build --json", "`dtlib ops list`", "ops list --json"),
    (
        "train text --device cuda --precision tf32 --nvtx --nvtx-first 6",
        "use --device cpu --precision fp32 without nvtx and nvtx_first, or",
        "train text --device cpu --precision fp32",
    ),
    (
        "train text --cpu-offload --precision fp16",
        "; leave it out.\n",
        "train text --precision fp16",
    ),
    ("train text --workers 2", "; leave it out.\n", "train text"),
    ("train text --loder", "Did you mean '--ledger'", "train text --ledger"),
    (
        "train text --strategy zero3 --compile --compile-mode max-autotune",
        "drop compile and compile_mode, or use strategy fsdp.\n",
        "train text --strategy fsdp --compile --compile-mode max-autotune",
    ),
    ("train text --local_rank=1", "`dtlib train text --ranks N`", "train text --ranks 2"),
    ("--local_rank=1 train", "`dtlib train images|text --ranks N`", "train images --ranks 2"),
]

# The same, where a package or a compiler is missing, or on a Mac.
MISSING = [
    (
        "g++",
        "train text --compile --compile-mode max-autotune",
        "or drop compile and compile_mode.\n",
        "train text",
    ),
    (
        "lightning_fabric",
        "train text --strategy lightning --static-graph --bucket-cap-mb 1",
        "or use strategy ddp.\n",
        "train text --static-graph --bucket-cap-mb 1",
    ),
    (
        "deepspeed",
        "train text --strategy offload --zero-stage 3",
        "use strategy fsdp without zero_stage",
        "train text --strategy fsdp",
    ),
    (
        "deepspeed",
        "train text --strategy zero2 --deepspeed own.json",
        "use strategy fsdp without deepspeed",
        "train text --strategy fsdp",
    ),
]


class Started(Exception):
    """A run was accepted."""


def refuse_to_start(*_: object, **__: object) -> None:
    raise Started


def accepted(line: str) -> bool:
    try:
        return cli.main(line.split()) == 0
    except Started:
        return True


@pytest.mark.parametrize(("line", "remedy", "next_line"), REMEDIES)
def test_a_remedy_is_not_refused_next(line, remedy, next_line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "launch", refuse_to_start)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text("{}")
    assert not accepted(line)
    assert remedy in capsys.readouterr().err
    assert accepted(next_line), capsys.readouterr().err


@pytest.mark.parametrize(("missing", "line", "remedy", "next_line"), MISSING)
def test_a_remedy_for_what_is_missing_is_not_refused_next(
    missing, line, remedy, next_line, capsys, monkeypatch, tmp_path
):
    find, which = importlib.util.find_spec, shutil.which
    absent = {missing, "clang++"} if missing == "g++" else {missing}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in absent else find(name)
    )
    monkeypatch.setattr(shutil, "which", lambda name: None if name in absent else which(name))
    monkeypatch.setattr(sys, "platform", "darwin" if missing == "deepspeed" else sys.platform)
    monkeypatch.delenv("CXX", raising=False)
    test_a_remedy_is_not_refused_next(line, remedy, next_line, capsys, monkeypatch, tmp_path)


@functools.cache
def refusal(**settings) -> str:
    """Return the sentence by which settings are refused before anything starts, or nothing."""
    try:
        config = RunConfig(**settings)
        strategies.find(config.strategy).check(config, 1)
    except Unavailable:  # here; another machine would not refuse them
        return ""
    except BadInput as error:
        return str(error)
    return ""


def remedies(sentence: str, settings: dict) -> list[dict]:
    """Follow the sentence of a setting without effect in each of the ways that it names."""
    said = re.match(
        r"(?:no )?(\w+).* has no effect with (?:no )?(\w+).*?; leave it out(.*)\.$", sentence
    )
    if not said:
        return []
    key, decides, ways = said[1], said[2], said[3].removeprefix(", or use ")
    found = [{name: value for name, value in settings.items() if name != key}]
    for way in ways.split(" or ") if ways else []:
        found.append({**settings, decides: True if way == decides else way})
    return found


STRATEGY = {
    "bucket_cap_mb": 1.0, "compress_gradients": "bf16", "static_graph": True, "zero_stage": 2,
    "deepspeed": "x.json", "nvme": "x", "shard_ranks": 1, "cpu_offload": True,
    "pipeline_schedule": "gpipe",
}  # fmt: skip


def cases():
    """Yield two settings of the tables at a time, and one of those that others decide by."""
    assert set(STRATEGY) == set(OPTIONS)
    every = {**OTHER, **STRATEGY}
    for one, other in itertools.combinations(every, 2):
        for task in CHOICES["task"]:
            yield {"task": task, one: every[one], other: every[other]}
    names = {"strategy": strategies.names(), **{key: CHOICES[key] for key in CHOICES}}
    for decides in ("strategy", "precision", "device", "optimizer"):
        for value, one, task in itertools.product(names[decides], every, CHOICES["task"]):
            yield {**{"task": task, one: every[one]}, decides: value}
            for precision in ("fp16",) if one in STRATEGY else ():
                yield {**{"task": task, one: every[one]}, decides: value, "precision": precision}


def told_of(sentence: str) -> str:
    """Which setting a sentence says is wrong, without what it is wrong beside, and the remedy."""
    return re.split(" has no effect with | does not go with |;", sentence)[0]


def test_a_walk_over_all_settings_without_effect_finds_no_remedy_that_is_refused_next(monkeypatch):
    """A second setting that was wrong before stays wrong; nothing else may be found wrong next."""
    monkeypatch.setattr(strategies, "available", functools.cache(strategies.available))
    followed, wrong = 0, []
    for settings in cases():
        sentence = refusal(**settings)
        for changed in remedies(sentence, settings):
            followed += 1
            next_ = refusal(**changed)
            told = {told_of(next_)} if next_ else set()
            before = {told_of(refusal(task=settings["task"], **{k: settings[k]}))
                      for k in settings if k != "task"} - {told_of(sentence)}  # fmt: skip
            if told - before:
                wrong.append((settings, sentence, changed, next_))
    assert followed > 1000 and wrong == []
