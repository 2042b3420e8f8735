"""Runs of a family that share their processes: results stay the same, and each runs only once."""

from pathlib import Path

from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.study import rows
from dtlib.study.family import Planned, carry_out

from .rehearse import together

SMALL = {"steps": 4, "global_batch": 4, "max_length": 16, "num_samples": 32, "ledger": True}


def plan(strategy: str, ranks: int, **more: object) -> Planned:
    config = RunConfig("text", strategy=strategy, ranks=ranks, **{**SMALL, **more})  # type: ignore[arg-type]
    return Planned(f"{strategy}-{ranks}", config)


def test_runs_of_a_launch_are_those_of_launches_of_their_own(tmp_path: Path) -> None:
    plans = [plan("single", 1), plan("ddp", 2), plan("fsdp", 2)]
    found = together(tmp_path / "shared", plans)
    alone = list(carry_out(tmp_path / "alone", plans))
    assert [o.planned.name for o in found] == ["single-1", "ddp-2", "fsdp-2"]
    assert {o.status for o in found} == {"done"}
    assert [o.run.loss for o in found] == [o.run.loss for o in alone]
    kept = ("strategy", "world_size", "parameters_bytes", "optimizer_bytes", "unexplained_bytes")
    shared, apart = rows.tidy(found, "strategies"), rows.tidy(alone, "strategies")
    for mine, other in zip(shared, apart, strict=True):
        assert [mine[key] for key in kept] == [other[key] for key in kept]


def test_what_is_done_is_not_run_again_and_what_cannot_run_is_an_outcome(
    tmp_path: Path, monkeypatch
) -> None:
    from dtlib.strategies.ddp import DDP

    first = together(tmp_path, [plan("ddp", 2)])
    before = (first[0].run.folder / "summary.json").stat().st_mtime_ns

    def refuse(config: RunConfig, world_size: int) -> None:
        raise BadInput("ddp cannot run here.")

    monkeypatch.setattr(DDP, "check", refuse)
    again = together(tmp_path, [plan("ddp", 2), plan("fsdp", 2), plan("dp", 2)])
    assert [o.status for o in again] == ["done", "done", "refused"]
    assert again[2].because == "ddp cannot run here." and again[2].run is None
    assert (again[0].run.folder / "summary.json").stat().st_mtime_ns == before


def test_a_run_that_was_cut_short_is_gone_on_with(tmp_path: Path) -> None:
    whole = together(tmp_path / "whole", [plan("ddp", 2)])
    (tmp_path / "cut" / "ddp-2").mkdir(parents=True)
    config = (tmp_path / "whole" / "ddp-2" / "config.json").read_text()
    (tmp_path / "cut" / "ddp-2" / "config.json").write_text(config)
    found = together(tmp_path / "cut", [plan("ddp", 2)])
    assert [o.run.loss for o in found] == [o.run.loss for o in whole]
