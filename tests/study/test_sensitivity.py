"""Studies of settings: the grid, paired gains, noise, the figures again from CSV alone."""

import csv
import statistics
from pathlib import Path

import pytest

from dtlib import study
from dtlib.config.files import write_csv
from dtlib.errors import BadInput
from dtlib.measure.noise import compare
from dtlib.study import drawing, sensitivity, sensitivity_view, tables
from dtlib.training.record import COLUMNS

SETTINGS = {"task": "text", "ranks": 2}
IMAGES = {"task": "images", "ranks": 2}
AXES = {"bucket_cap_mb": [1.0, 25.0], "precision": ["fp32", "bf16"]}


def made(speeds: dict[tuple[float, str], list[float]]) -> list[tables.Row]:
    """Runs of these throughputs, by bucket and precision."""
    base = {**dict.fromkeys(COLUMNS), "study": "sensitivity", "world_size": 2, "global_batch": 8}
    return [
        {**base, "bucket_cap_mb": bucket, "precision": precision, "accumulation": 1, "workers": 0,
         "repeat": repeat, "throughput": speed, "throughput_unit": "images/s",
         "step_time_s": 8 / speed}
        for (bucket, precision), all_speeds in speeds.items()
        for repeat, speed in enumerate(all_speeds)
    ]  # fmt: skip


# the second turn was half as fast for everything: 1/bf16 gains 50 % in all, 25/fp32 is noise
MADE = made({
    (1.0, "fp32"): [100, 50, 100], (1.0, "bf16"): [150, 75, 150],
    (25.0, "fp32"): [105, 50, 102], (25.0, "bf16"): [80, 42, 84],
})  # fmt: skip


def test_the_whole_grid_in_turns() -> None:
    planned = list(sensitivity.plans(IMAGES, {**AXES, "workers": [0, 2]}, repeats=2))
    assert len(planned) == len({one.name for one in planned}) == 16
    assert planned[0].name == "bucket1-fp32-workers0-repeat0"
    assert planned[-1].name == "bucket1-fp32-workers0-repeat1"  # every other turn goes backwards
    assert {one.config.loader for one in planned} == {"dataloader"}  # only the workers differ
    assert {one.config.loader for one in sensitivity.plans(SETTINGS, AXES, 1)} == {"device"}
    assert {(c.threads, c.profile) for c in (one.config for one in planned)} == {(1, True)}
    same = [one.config for one in planned if "repeat0" in one.name]
    assert same == [one.config for one in planned if "repeat1" in one.name][::-1]


@pytest.mark.parametrize(("axes", "said"), [
    ({}, "the grid has one combination"),
    ({"precision": ["fp32"]}, "the grid has one combination"),
    ({"workers": [0, 2]}, r"workers 2 has no effect with task text; leave it out\."),
    ({"lr": [1e-3, 1e-4]}, "lr cannot vary in a sensitivity study"),
    ({"bucket_cap_mb": ["1", "1.0"]}, "the grid contains bucket1 twice"),
    ({"global_batch": [8, 9]}, "global batch 9 is not divisible by"),
    ({"precision": ["fp32", "fp8"]}, "precision 'fp8' is not offered"),
])  # fmt: skip
def test_grids_that_are_refused(axes, said) -> None:
    with pytest.raises(BadInput, match=said):
        list(sensitivity.plans(SETTINGS, axes, 1))


@pytest.mark.parametrize(("gains", "said"), [
    ([0.05, 0.06, 0.06], "gain"), ([-0.2, -0.16, -0.16], "loss"), ([0.1, -0.01, 0.1], "noise"),
    # all pairs agree on the sign, and on nothing else: 1.3 times, with a spread of 1.6
    ([0.01, 0.3, 0.62], "noise"), ([-0.2, -0.1, -0.1], "noise"), ([0.5], "one repeat"),
])  # fmt: skip
def test_a_gain_exceeds_the_spread_of_its_pairs(gains, said) -> None:
    assert sensitivity.verdict(gains) == said
    if len(gains) > 1:
        ratios = [1 + one for one in gains]
        assert compare(statistics.median(ratios), ratios).real == (said != "noise")


def test_gains_are_paired_by_turn_and_noise_is_called_noise() -> None:
    found = sensitivity.best(MADE)
    got = [(row["bucket_cap_mb"], row["precision"], row["verdict"]) for row in found]
    assert got[0] == (1.0, "bf16", "gain") and got[-1] == (25.0, "bf16", "loss")
    # medians of throughput are 102 and 100: a gain of 2 %, if turns were not paired with spread
    assert (25.0, "fp32", "noise") in got and (1.0, "fp32", "first") in got
    assert [found[0][f"gain{end}"] for end in ("_min", "", "_max")] == [0.5] * 3
    assert {row["verdict"] for row in sensitivity.best([r for r in MADE if not r["repeat"]])} == {
        "first", "one repeat",
    }  # fmt: skip
    with pytest.raises(BadInput, match="not runs of a sensitivity study"):
        sensitivity.best([{**MADE[0], "study": "strong"}])


def test_a_heat_map_has_the_best_over_the_axes_that_it_does_not_show() -> None:
    more = [{**row, "workers": 2, "throughput": 2 * row["throughput"]} for row in MADE]
    more += [{**row, "workers": 4, "throughput": 3 * row["throughput"]} for row in MADE[:3]]
    found = sensitivity.best(MADE + more)
    assert sensitivity_view.chosen(found) == ("bucket_cap_mb", "workers")
    cells = sensitivity_view.grid(found, "bucket_cap_mb", "workers")
    shown = [[cell and cell["throughput"] for cell in line] for line in cells]
    assert shown == [[150, 300, 300], [102, 204, None]]
    words = [text.get_text() for text in sensitivity_view.heat_map(found).axes[0].texts]
    assert words[:3] == ["150.0\n+50.0%", "300.0\n+200.0%", "300.0\n+200.0%"]
    assert words[-1] == "not run"
    one_axis = sensitivity_view.heat_map(sensitivity.best(MADE[:6]))
    assert [text.get_text() for text in one_axis.axes[0].texts] == ["150.0\n+50.0%", "100.0\nfirst"]


def test_figures_from_csv_alone(tmp_path: Path, capsys) -> None:
    write_csv(tmp_path / "sensitivity.csv", COLUMNS, MADE)
    assert tables.read(tmp_path / "sensitivity.csv") == MADE
    assert study.main(["figure", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "a gain of at least 20 %: reached: 50.0% (50.0% to 50.0%)" in printed
    assert "no larger than the largest over the smallest" in printed
    assert "the best of 4 settings" in printed
    assert "missing" not in printed
    with (tmp_path / "best.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == list(sensitivity.BEST) and len(table) == 4
    bars = (tmp_path / "before_after.png").read_bytes()
    assert b"before 100.0, after 150.0: +50.0% (+50.0% to +50.0%)" in bars
    words = (tmp_path / "sensitivity.png").read_bytes()
    assert b"precision fp32, bucket_cap_mb 25: 102.0 +2.0% (noise)" in words


def test_missing_runs_are_named_and_nothing_is_drawn_without_the_first_setting(tmp_path) -> None:
    write_csv(tmp_path / "sensitivity.csv", COLUMNS, MADE[:-1])
    text, _ = drawing.draw(tmp_path)
    assert "1 of 12 runs is missing: bucket25-bf16-repeat2; start the same study" in text
    (tmp_path / "study.json").write_text(
        '{"study": "sensitivity", "bucket_cap_mb": ["1", "25"], "precision": ["fp32", "bf16"],'
        ' "runs": ["bucket1-fp32-repeat0", "bucket1-bf16-repeat0"]}'
    )
    write_csv(tmp_path / "sensitivity.csv", COLUMNS, MADE[3:9])
    text, written = drawing.draw(tmp_path)
    assert text.startswith("No gain yet: it takes finished runs of bucket1-fp32") and not written


def test_real_runs_of_a_grid(tmp_path: Path, capsys) -> None:
    words = ["sensitivity", "images", "--ranks", "1", "--global-batch", "4", "--num-samples", "16"]
    words += ["--steps", "7", "--width", "8", "--workers", "0,1", "--repeats", "1"]
    words += ["--out", str(tmp_path / "s")]
    assert study.main(words) == 0
    with (tmp_path / "s" / "sensitivity.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == list(COLUMNS)
    assert [(row["workers"], row["repeat"]) for row in table] == [("0", "0"), ("1", "0")]
    assert table[0]["loss"] == table[1]["loss"]  # workers change the speed, not the run
    assert "One repeat shows no spread" in capsys.readouterr().out
    with pytest.raises(BadInput, match="has workers 0,1 and this one has 0,2"):
        study.main([word.replace("0,1", "0,2") for word in words])
