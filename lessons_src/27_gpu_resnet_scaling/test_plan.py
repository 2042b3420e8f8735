"""What lesson 27 scales, and on how many images: timings are faked, since no GPU is at hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dtlib.config import RunConfig
from dtlib.study import family, scaling, worlds

from . import plan

FAST = {"precision": "bf16", "channels_last": True}
SETTINGS = {"fp32": {}, "bf16, channels_last": FAST, "tf32": {"precision": "tf32"}}


def ladder(monkeypatch: pytest.MonkeyPatch, folder: Path, rates: dict[str, list[float]]) -> dict:
    """A climb whose runs have these images/s, in order; a setting without any is unavailable."""
    left = {name: list(values) for name, values in rates.items()}

    def carry_out(out, planned):
        for one in planned:
            what = one.name.rpartition("-repeat")[0]
            if what not in left:
                yield family.Outcome(one, None, "unavailable", "no TF32 here.")
            else:
                run = SimpleNamespace(summary={"throughput": left[what].pop(0)})
                yield family.Outcome(one, run)

    monkeypatch.setattr(family, "carry_out", carry_out)
    return plan.climb(folder, plan.full(8), SETTINGS, 3)


def test_the_fastest_is_that_of_the_largest_median_of_three(monkeypatch, tmp_path, capsys):
    faked = {"fp32": [900.0, 10.0, 11.0], "bf16-channels_last": [30.0, 20.0, 25.0]}
    rates = ladder(monkeypatch, tmp_path, faked)
    assert rates == {"fp32": [900.0, 10.0, 11.0], "bf16, channels_last": [30.0, 20.0, 25.0]}
    assert plan.fastest(rates) == "bf16, channels_last"
    assert capsys.readouterr().out.count("tf32: no TF32 here.") == 3
    turns = family.read_folder(tmp_path)["runs"]
    assert turns[:2] == ["fp32-repeat0", "bf16-channels_last-repeat0"] and len(turns) == 9
    assert turns[3:6] == ["tf32-repeat1", "bf16-channels_last-repeat1", "fp32-repeat1"]


@pytest.mark.parametrize("gpus", [1, 2, 4, 6, 8, 12, 16, 64])
def test_what_is_scaled_is_the_fastest_with_128_images_a_gpu_and_pictures_for_all(gpus):
    base = {**plan.full(gpus), **FAST}
    ranks = worlds.counts(gpus, {})
    together = {**base, "task": "images", "global_batch": plan.strong_batch(ranks)}
    for settings, kind in ((together, "strong"), ({**base, "task": "images"}, "weak")):
        planned = [one.config for one in scaling.plans(kind, settings, ranks, 3)]
        assert [c.ranks for c in planned] == 3 * ranks and ranks[-1] == gpus
        for config in planned:
            assert config.global_batch / config.ranks >= 128
            assert config.global_batch <= config.num_samples
            assert (config.precision, config.channels_last) == ("bf16", True)


def rows(kind, one, most):
    """Rows of a study on 1 and 4 ranks: images/s of one, and the efficiency of four."""
    first = {"study": kind, "world_size": 1, "efficiency": 1.0, "throughput": one}
    return [first, {**first, "world_size": 4, "efficiency": most, "throughput": 4 * most * one}]


def test_a_growing_batch_is_multiplied_with_the_efficiency_of_weak_scaling_alone():
    weak = rows("weak", 1000.0, 0.9)
    assert [plan.grown(weak, n) for n in (1, 4, 16)] == [1000.0, 3600.0, 14400.0]
    with pytest.raises(ValueError, match="a batch that grows asks for weak scaling, not strong"):
        plan.grown(rows("strong", 1000.0, 0.5), 4)


SMALL = {"width": 8, "global_batch": 8, "num_samples": 16, "steps": 3, "device": "cpu"}


def runs_of(folder: Path) -> dict[str, int]:
    """When each run that is done was written, by name."""
    found = sorted(folder.rglob("summary.json"))
    return {path.parent.name: path.stat().st_mtime_ns for path in found}


def no_more(monkeypatch) -> None:
    monkeypatch.setattr(plan.start, "train", lambda config: pytest.fail("it ran again"))
    monkeypatch.setattr(plan.launcher, "launch", lambda *_, **__: pytest.fail("it ran again"))


@pytest.mark.parametrize("shared", [False, True])
def test_a_ladder_that_is_climbed_again_runs_nothing(shared, tmp_path, monkeypatch):
    """As after a requeue: a run that is done keeps its speed, so the same setting is scaled."""
    before = plan.climb(tmp_path, SMALL, {"fp32": {}}, 2, shared)
    no_more(monkeypatch)
    assert plan.climb(tmp_path, SMALL, {"fp32": {}}, 2, shared) == before
    assert len(before["fp32"]) == 2


def test_a_study_of_shared_launches_has_the_runs_of_others(tmp_path, monkeypatch):
    """Three launches for four runs, since the second turn goes backwards; the rest is the same."""
    started, launch = [], plan.launcher.launch

    def counted(function, configs, *, ranks, **options):
        started.append((ranks, len(configs)))
        return launch(function, configs, ranks=ranks, **options)

    monkeypatch.setattr(plan.launcher, "launch", counted)
    rows = plan.study(tmp_path, "strong", SMALL, [1, 2], 2, shared=True)
    assert started == [(1, 1), (2, 2), (1, 1)]
    assert [(row["world_size"], row["repeat"]) for row in rows] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    before = runs_of(tmp_path)
    no_more(monkeypatch)
    again = plan.study(tmp_path, "strong", SMALL, [1, 2], 2)  # as in a command: it finds all done
    assert again == rows and runs_of(tmp_path) == before
    assert sorted(before) == sorted(family.read_folder(tmp_path)["runs"])


def test_what_varies_is_taken_out_of_the_settings(tmp_path):
    axes = {"bucket_cap_mb": [0.1, 25.0], "precision": ["fp32", "bf16"]}
    own = {**SMALL, "precision": "bf16"}
    rows = plan.study(tmp_path, "sensitivity", own, [1, 2], 1, axes, shared=True)
    found = sorted((row["bucket_cap_mb"], row["precision"], row["world_size"]) for row in rows)
    assert found == [(0.1, "bf16", 2), (0.1, "fp32", 2), (25, "bf16", 2), (25, "fp32", 2)]


def test_a_curve_that_is_done_is_not_trained_again(tmp_path, monkeypatch):
    """As after a requeue: only the batch that is missing is trained."""
    monkeypatch.setattr(plan, "PICTURES", 16)
    wide = {"width": 8, "device": "cpu"}
    first = plan.curve(tmp_path, 8, 2, wide)
    assert len(first) == 2 and all(0 <= share <= 1 for share in first)
    before = runs_of(tmp_path)
    assert list(before) == ["batch8"]
    assert plan.curve(tmp_path, 8, 2, wide) == first and len(plan.curve(tmp_path, 16, 2, wide)) == 2
    after = runs_of(tmp_path)
    assert sorted(after) == ["batch16", "batch8"] and after["batch8"] == before["batch8"]


def test_the_lesson_scales_the_fastest_and_repeats_thrice_at_full_size():
    from dtlib.learn import source

    text = source.find("27").text
    assert "scaled = {**base, **settings[fastest]}" in text
    assert "wanted = {**scaled, **own}" in text and "repeats = repeats or 3" in text
    assert "plan.grown(at_64, n)" in text and "plan.curve(place, " in text
    assert RunConfig("images", **plan.full(8)).untimed_steps == 10
