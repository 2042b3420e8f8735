"""Studies of strong and weak scaling: what is run, what an efficiency is, going on, drawing."""

import csv
import shutil
from pathlib import Path

import pytest

from dtlib import study
from dtlib.config.files import write_csv
from dtlib.errors import BadInput
from dtlib.study import scaling, scaling_view
from dtlib.training.record import COLUMNS

WORDS = "--model nano --global-batch 8 --num-samples 64 --steps 7 --ranks 2 --repeats 2"
SMALL = WORDS.split()


def rows(kind: str, seconds: dict[int, list[float]], batch: int = 64) -> list[scaling.Row]:
    """A study whose runs took these seconds a step, by number of ranks."""
    found = []
    for ranks, times in seconds.items():
        total = batch if kind == "strong" else batch * ranks
        for repeat, time in enumerate(times):
            own = {"study": kind, "world_size": ranks, "repeat": repeat, "step_time_s": time}
            own |= {
                "global_batch": total, "throughput": total / time, "throughput_unit": "images/s",
            }  # fmt: skip
            found.append({**dict.fromkeys(COLUMNS), **own})
    return found


def test_what_is_fixed_and_what_grows() -> None:
    settings = {"task": "images", "global_batch": 12}
    for kind, batches in (("strong", [12, 12, 12]), ("weak", [12, 24, 48])):
        configs = [p.config for p in scaling.plans(kind, settings, [2, 4], repeats=2)]
        assert [c.ranks for c in configs] == [1, 2, 4, 1, 2, 4]  # a whole turn for each repeat
        assert [c.global_batch for c in configs[:3]] == batches
        assert [c.strategy for c in configs[:3]] == ["single", "ddp", "ddp"]
        assert {c.threads for c in configs} == {1} and all(c.profile for c in configs)
    assert len({p.name for p in scaling.plans("weak", settings, [2, 4], 2)}) == 6
    with pytest.raises(BadInput, match="--repeats is 0"):
        list(scaling.plans("strong", settings, [2], repeats=0))


@pytest.mark.parametrize(("kind", "seconds", "efficiency", "speedup"), [
    ("strong", {1: [8.0], 2: [5.0], 4: [2.0]}, [1, 0.8, 1], [1, 1.6, 4]),
    ("weak", {1: [8.0], 2: [10.0], 4: [8.0]}, [1, 0.8, 1], [1, 1.6, 4]),
    # the field's own example: 4,451 images/s on two GPUs beside 4,507 on one are 0.49
    ("strong", {1: [64 / 4507], 2: [64 / 4451]}, [1, 0.4938], [1, 0.9876]),
])  # fmt: skip
def test_efficiency_as_it_is_defined(kind, seconds, efficiency, speedup) -> None:
    found = scaling.efficiency(rows(kind, seconds))
    assert [row["efficiency"] for row in found] == pytest.approx(efficiency, abs=1e-4)
    assert [row["speedup"] for row in found] == pytest.approx(speedup, abs=1e-4)


def test_the_spread_is_that_of_each_repeat_against_its_own_turn() -> None:
    # the whole machine was half as fast in the second turn: every efficiency is the same
    (_, two) = scaling.efficiency(rows("strong", {1: [8.0, 16.0, 8.0], 2: [5.0, 10.0, 4.0]}))
    assert [two[f"efficiency{end}"] for end in ("_min", "", "_max")] == [0.8, 0.8, 1.0]
    assert [two[f"step_time_s{end}"] for end in ("_min", "", "_max")] == [4, 5, 10]
    assert two["repeats"] == 3


def test_a_table_that_mixes_strong_and_weak_is_refused() -> None:
    mixed = rows("strong", {1: [1.0]}) + rows("weak", {2: [1.0]})
    with pytest.raises(BadInput, match="studies strong, weak; an efficiency is defined for strong"):
        scaling.efficiency(mixed)
    with pytest.raises(BadInput, match="no run on one rank is done"):
        scaling.efficiency(rows("weak", {2: [1.0]}))


def test_the_table_says_when_ranks_shared_cores_and_when_there_is_no_spread() -> None:
    text = scaling_view.table(scaling.efficiency(rows("strong", {1: [8.0], 4: [4.0]})), cores=2)
    assert "4 ranks shared 2 cores" in text and "One repeat shows no spread" in text
    quiet = scaling_view.table(scaling.efficiency(rows("weak", {1: [8.0] * 3, 2: [9.0] * 3})), 2)
    assert "shared" not in quiet and "no spread" not in quiet


def test_a_number_of_ranks_without_a_partner_is_left_out_and_named(tmp_path, capsys) -> None:
    table = rows("strong", {1: [8.0], 2: [5.0, 5.0]})
    lonely = [{**table[1], "world_size": 4, "repeat": 1}]
    assert list(scaling.paired(table + lonely)) == [1, 2]
    write_csv(tmp_path / "strong.csv", COLUMNS, table + lonely)
    assert study.main(["figure", str(tmp_path)]) == 0
    said = "3 of 6 runs are missing: ranks4-repeat0, ranks1-repeat1, ranks2-repeat1; start the same"
    table.pop()
    printed = capsys.readouterr().out
    assert "2 of 6 runs are missing: ranks4-repeat0, ranks1-repeat1; start the same" in printed
    write_csv(tmp_path / "strong.csv", COLUMNS, table + lonely)
    assert study.main(["figure", str(tmp_path)]) == 0
    assert said in capsys.readouterr().out
    write_csv(tmp_path / "strong.csv", COLUMNS, lonely)
    assert study.main(["figure", str(tmp_path)]) == 0
    assert "No efficiency yet" in capsys.readouterr().out


def test_a_batch_that_the_ranks_cannot_share_is_refused_before_anything_starts() -> None:
    with pytest.raises(BadInput, match="global batch 12 is not divisible"):
        list(scaling.plans("strong", {"task": "text", "global_batch": 12}, [8], 1))


def test_a_study_runs_goes_on_where_it_stopped_and_is_drawn_again(tmp_path: Path, capsys) -> None:
    out = tmp_path / "s"
    words = ["strong", "text", *SMALL, "--out", str(out)]
    assert study.main(words) == 0
    with (out / "strong.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == list(COLUMNS)
    found = {(row["world_size"], row["repeat"], row["strategy"]) for row in table}
    assert found == {(n, r, s) for n, s in (("1", "single"), ("2", "ddp")) for r in "01"}
    assert all(row["step_time_s"] and row["comm_share"] for row in table)
    losses = [float(row["loss"]) for row in table]
    assert max(losses) - min(losses) < 1e-6 * losses[0]  # text at any number of ranks

    shutil.rmtree(out / "ranks2-repeat1")  # as if it had been stopped in the last run
    kept = (out / "ranks1-repeat0" / "summary.json").stat().st_mtime_ns
    assert study.main(words) == 0
    assert (out / "ranks1-repeat0" / "summary.json").stat().st_mtime_ns == kept
    assert (out / "ranks2-repeat1" / "summary.json").exists()

    (out / "strong.png").unlink()
    capsys.readouterr()
    assert study.main(["figure", str(out)]) == 0
    assert b"2 ranks: " in (out / "strong.png").read_bytes()
    assert "Strong scaling, medians of 2 repeats" in capsys.readouterr().out
    with (out / "efficiency.csv").open(newline="") as file:
        assert [row["world_size"] for row in csv.DictReader(file)] == ["1", "2"]
    with pytest.raises(BadInput, match="has study strong and this one has weak"):
        study.main(["weak", "text", *SMALL, "--out", str(out)])
