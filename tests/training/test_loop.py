"""The loop: what a run is made of, how it ends, how it goes on."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.config import RunConfig
from dtlib.errors import BadInput, DtlibError, Stopped
from dtlib.ranks import dist
from dtlib.strategies.optim import learning_rate
from dtlib.training import recorder, start, tasks
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.record import COLUMNS, Run, claimed
from tests.saved_checkpoints import assert_same_bits
from tests.strategy_runs import state
from tests.toy import Toy, config


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def little(story: str, **settings) -> RunConfig:
    plain = {"data": story, "tokenizer": "characters", "model": "nano", "max_length": 8}
    plain |= {"steps": 6, "global_batch": 6, "strategy": "single", "untimed_steps": 1, "out": "run"}
    return RunConfig("text", **{**plain, **settings})


def alone(settings: RunConfig) -> Run:
    """Train in this process, a world of one."""
    return Run.load(start.train_on_rank(start.prepare(settings)))


def losses(run: Run) -> list[float]:
    return [line["loss"] for line in run.history]


def test_train_returns_the_run_with_its_records(story, tmp_path):
    run = dtlib.train(little(story, strategy="ddp", out=None), ranks=2, eval_every=3)
    assert run.folder.resolve() == tmp_path / "runs" / "text-ddp-001"
    assert [line["step"] for line in run.history] == [1, 2, 3, 4, 5, 6]
    assert run.loss == run.history[-1]["loss"] == run.summary["loss"]
    assert run.loss < run.history[0]["loss"]
    assert [run.summary[k] for k in ("global_batch", "micro_batch", "accumulation")] == [6, 3, 1]
    assert run.history[0]["count"] == 48  # 6 windows of 8 tokens, over both ranks
    row = run.row()
    assert set(row) == set(COLUMNS)
    assert (row["world_size"], row["strategy"], row["throughput_unit"]) == (2, "ddp", "tokens/s")
    assert (row["warmup_steps"], row["timed_steps"]) == (1, 5)
    assert row["metric"] == run.summary["evaluation"]["valid_perplexity"]
    for rank in (0, 1):
        own = (run.folder / f"rank{rank}.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in own] == [1, 2, 3, 4, 5, 6]


def test_evaluations_are_kept_and_the_best_of_their_checkpoints(story):
    run = alone(little(story, eval_every=2, checkpoint_every=2, steps=7))
    found = {line["step"]: line["valid_loss"] for line in run.evaluations}
    assert list(found) == [2, 4, 6, 7]
    assert found[7] == run.summary["evaluation"]["valid_loss"]
    best = Checkpoints(run.folder / "checkpoints").best()
    assert best is not None and best.step == min(found, key=found.__getitem__)


def test_a_run_that_diverges_ends_with_a_sentence_and_keeps_the_checkpoint_before(story):
    wild = {"optimizer": "sgd", "lr": 1e18, "warmup_steps": 4, "checkpoint_every": 1, "steps": 20}
    with pytest.raises(DtlibError, match=r"loss is (nan|inf) in step \d+.* lower lr than 1e\+18"):
        alone(little(story, **wild))
    last = Checkpoints(Path("run/checkpoints")).latest()
    assert last is not None and math.isfinite(last.shared["progress"]["loss"])


def test_a_resumed_run_says_from_where(story, capsys):
    alone(little(story, steps=2, schedule="constant"))
    alone(little(story, steps=3, schedule="constant", resume=True))
    said = capsys.readouterr().out
    assert "Resuming run after step 2, from step-" in said and "another run" not in said


def test_a_run_is_never_written_over(story):
    first, second = (alone(little(story, steps=1, out=None)) for _ in range(2))
    assert [run.folder.name for run in (first, second)] == ["text-single-001", "text-single-002"]
    with pytest.raises(BadInput, match="already holds a run"):
        start.prepare(little(story, out=str(first.folder)))


def test_what_cannot_run_is_refused_before_any_rank_starts(story, monkeypatch):
    monkeypatch.setattr(start.launcher, "launch", lambda *_, **__: pytest.fail("a rank started"))

    def refused(words: str, **settings) -> None:
        with pytest.raises(BadInput, match=words):
            dtlib.train("text", **{"data": story, "model": "nano", **settings})

    refused("unknown strategy 'zero9'", strategy="zero9")
    refused("'nona' is not offered", model="nona")
    refused("ranks is 0", ranks=0)
    refused("6 is not divisible by accumulation 1 × 4 ranks", global_batch=6, ranks=4)
    refused("single is one rank, not 2", strategy="single", ranks=2)
    refused("unknown key 'global_bach'", global_bach=3)


def test_ranks_are_those_that_are_there_else_two_and_one_for_single(monkeypatch):
    assert start.prepare(RunConfig("text")).plan.world_size == 2
    assert start.prepare(RunConfig("text", strategy="single")).plan.world_size == 1
    assert start.prepare(RunConfig("text", ranks=4)).plan.world_size == 4
    torchrun = {"RANK": 0, "WORLD_SIZE": 8, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 8}
    torchrun |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
    for name, value in torchrun.items():
        monkeypatch.setenv(name, str(value))
    assert start.prepare(RunConfig("text")).plan.world_size == 8


def test_missing_data_is_bad_input_from_a_rank_too_and_so_is_too_little(story, tmp_path):
    with pytest.raises(BadInput, match="nowhere"):
        dtlib.train("text", ranks=2, data=str(tmp_path / "nowhere"), model="nano", timeout=20)
    with pytest.raises(BadInput, match=r"hold 5 windows of text, fewer than the global batch of 6"):
        alone(little(story, num_samples=5))


def test_epochs_are_whole_global_batches(story):
    run = alone(little(story, steps=None, epochs=2, num_samples=16))
    assert run.summary["steps"] == 4  # 16 windows are two batches of 6; 4 wait for a new order


def ask_to_stop(asked: int, after: int) -> None:
    """Let the rank `asked` be asked to stop once it has read `after` times whether it was."""
    calls = iter(range(1_000_000))
    dist.stop_requested = lambda: dist.world().rank == asked and next(calls) >= after


def stopped_on_ranks(settings: RunConfig, asked: int, after: int) -> str:
    """Ranks that read every three steps; rank 2 would every step, if its own clock decided."""
    recorder.READ_EVERY, recorder.READ_WITHIN = 3, 0.0 if dist.world().rank == 2 else 60.0
    ask_to_stop(asked, after)
    return start.train_on_rank(start.prepare(settings))


def test_a_stopped_run_goes_on_to_the_same_bits_at_three_ranks(story):
    """One rank of three is asked to stop; all agree on the step, and no bit differs in the end."""
    settings = little(
        story, strategy="ddp", deterministic=True, dropout=0.1, accumulation=2, warmup_steps=2
    )
    whole = dtlib.train(dataclasses.replace(settings, out="whole"), ranks=3, timeout=30)
    with pytest.raises(Stopped, match=r"stopped after step 5 of 6 .* --resume"):
        launch(stopped_on_ranks, settings, 1, 3, ranks=3, timeout=30)  # it reads at 0, 1, 2 and 5
    assert Run.load("run").summary == {}
    assert (Run.load("run").folder / "requeue").exists()
    resumed = dtlib.train(dataclasses.replace(settings, resume=True), ranks=3, timeout=30)
    assert not (resumed.folder / "requeue").exists()
    assert losses(resumed) == losses(whole)
    assert_same_bits(state(resumed), state(whole))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_stopped_run_of_one_rank_goes_on_to_the_same_bits(story, precision):
    settings = little(story, precision=precision, optimizer="sgd", clip=1.0, checkpoint_every=2)
    whole = alone(dataclasses.replace(settings, out="whole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "stop_requested", None)
        patch.setattr(recorder, "READ_EVERY", 1)
        ask_to_stop(asked=0, after=3)
        with pytest.raises(Stopped, match="after step 3"):
            alone(settings)
    resumed = alone(dataclasses.replace(settings, resume=True))
    assert losses(resumed) == losses(whole)
    assert_same_bits(state(resumed), state(whole))
    assert resumed.summary["evaluation"] == whole.summary["evaluation"]


def test_a_finished_run_resumes_to_itself(story):
    first = alone(little(story))
    again = alone(little(story, resume=True))
    assert again.summary["loss"] == first.summary["loss"]
    assert losses(again) == losses(first)


def test_the_checkpoint_of_another_run_is_refused(story, monkeypatch):
    alone(little(story, steps=2, checkpoint_every=1))

    def refused(words: str, **settings) -> None:
        with pytest.raises(BadInput, match=words):
            alone(little(story, resume=True, **settings))

    refused("another run's: seed was 0 and is now 1", seed=1)
    refused("another run's: global_batch was 6 and is now 12", global_batch=12)
    refused("another run's: optimizer was adamw and is now sgd", optimizer="sgd")
    refused("another model's: model was nano and is now gpt2", model="gpt2")
    # another vocabulary below the same name: the shapes tell
    shutil.copytree(story, "other")
    with Path("other/story.txt").open("a") as file:
        file.write("@#$")
    monkeypatch.setattr("dtlib.training.checkpoint.checkpointer.SAME_ON_RESUME", ())
    refused("is of another model: wte.weight", data="other")


def with_toy(monkeypatch, data) -> None:
    class WithData(Toy):
        def __init__(self, config: RunConfig, world: dist.World) -> None:
            super().__init__(config, world, data)

    monkeypatch.setattr(tasks, "find", lambda name: WithData)


# field bugs 3.08 and 4.03
def test_skipped_steps_are_counted_and_keep_the_learning_rate(monkeypatch):
    """Ten attempts with six overflows are four optimizer steps, and the rate is at its index 4."""
    pattern = [True, True, False, True, False, True, True, False, True, False]
    with_toy(monkeypatch, [[[math.inf if overflow else 1e-3]] for overflow in pattern])
    settings = config(precision="fp16", strategy="single", steps=10, schedule="cosine", out="run")
    run = alone(dataclasses.replace(settings, global_batch=1))
    assert [line["skipped"] for line in run.history] == pattern
    assert (run.summary["optimizer_steps"], run.summary["skipped_steps"]) == (4, 6)
    taken = 0
    for line in run.history:
        assert line["lr"] == learning_rate(settings, taken, 10)
        taken += not line["skipped"]
    # the scale was halved six times, and the next rate is that of index 4
    assert state(run)["scaler"]["scale"] == 65536.0 / 2**6
    assert taken == 4


# field bug 1.05
def test_a_step_without_any_label_changes_nothing_and_is_no_nan(monkeypatch):
    with_toy(monkeypatch, [[[1.0]], [[None]], [[1.0]]])
    run = alone(config(strategy="single", steps=3, lr=0.25, out="run", global_batch=1))
    assert losses(run) == [1.0, 0.0, 0.75]
    assert [line["count"] for line in run.history] == [1, 0, 1]


def test_the_gradients_norm_is_that_before_the_clip(monkeypatch):
    with_toy(monkeypatch, [[[10.0]], [[0.5]]])
    run = alone(config(strategy="single", steps=2, clip=1.0, lr=0.5, out="run", global_batch=1))
    assert [line["grad_norm"] for line in run.history] == [10.0, 0.5]
    assert losses(run) == [10.0, pytest.approx(0.25)]  # w went from 1 to 0.5, not to -4


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp64"])
def test_every_precision_learns_nearly_the_same(story, precision):
    reference = alone(little(story, out="fp32"))
    run = alone(little(story, precision=precision))
    # bf16 keeps 8 bits: 2^-8 relative, a loss near 3
    assert losses(run) == pytest.approx(losses(reference), rel=2**-8)
    dtype = torch.float64 if precision == "fp64" else torch.float32
    assert {tensor.dtype for tensor in state(run)["model"].values()} == {dtype}


def test_dropout_follows_from_seed_rank_and_step_alone(story):
    first = alone(little(story, dropout=0.2))
    torch.manual_seed(1234)
    second = alone(little(story, dropout=0.2, out="second"))
    assert losses(first) == losses(second)
    assert losses(first) != losses(alone(little(story, dropout=0.2, seed=1, out="third")))


def test_looking_does_not_change_the_run(story):
    plain = alone(little(story))
    watched = alone(little(story, eval_every=2, checkpoint_every=1, out="watched"))
    assert losses(plain) == losses(watched)
    assert_same_bits(state(plain), state(watched))


def test_deterministic_kernels_are_chosen(story):
    alone(little(story, steps=1, deterministic=True))
    assert torch.are_deterministic_algorithms_enabled()
    alone(little(story, steps=1, out="free"))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_model_has_the_same_losses(story):
    plain = dtlib.train(little(story, strategy="ddp", out="plain"), ranks=2)
    compiled = dtlib.train(little(story, strategy="ddp", compile=True), ranks=2, timeout=120)
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-5)  # fused, so rounded otherwise
    assert [run.summary["compile_mode"] for run in (plain, compiled)] == [None, "default"]


def test_second_run_in_the_folder_of_one_at_work_is_refused(story):
    Path("run").mkdir()
    with claimed(Path("run")), pytest.raises(BadInput, match="another run is writing"):
        dtlib.train(little(story), ranks=1)
    assert not any(Path("run").iterdir())


def test_a_run_may_end_without_a_checkpoint(story, monkeypatch, capsys):
    """As those of a study do; stopped half-way it has one, from which it goes on."""
    asked = iter([False, False, True])
    monkeypatch.setattr(dist, "stop_requested", lambda: next(asked, False))
    with pytest.raises(Stopped):
        alone(little(story, checkpoint_every=0))
    half = Checkpoints(Path("run/checkpoints")).latest()
    assert half is not None and half.step == 2
    run = alone(little(story, checkpoint_every=0, resume=True))
    assert "Resuming run after step 2, from step-" in capsys.readouterr().out
    assert len(run.history) == 6 and run.summary["loss"] == run.history[-1]["loss"]
    assert [path.name for path in (run.folder / "checkpoints").glob("step-*")] == [half.path.name]
