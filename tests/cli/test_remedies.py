"""What an error proposes is accepted next: each remedy is followed, and nothing is started."""

from __future__ import annotations

import pytest

from dtlib import cli
from dtlib.ranks import launcher

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
    ("train text --steps 3 --epochs 1", "give one", "train text --epochs 1"),
    (
        "profile nsys --print -- train text --steps 4",
        "smaller --first",
        "profile nsys --print --first 4 -- train text --steps 4",
    ),
    ("study weak text --parts --part x", "--parts lists them", "study weak text --parts"),
    ("study strong text --json", "add it", "study strong text --json --parts"),
    ("fetch cifar10 --json", "add --urls", "fetch cifar10 --json --urls"),
    ("ops build --json", "`dtlib ops list`", "ops list --json"),
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
