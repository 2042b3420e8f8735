"""`dtlib sim memory`: its peak against a real step, its table, its JSON and its refusals."""

import contextlib
import dataclasses
import json

import pytest
import torch
import torch.distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from dtlib import cli
from dtlib.cli import simulate
from dtlib.config import RunConfig
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.models.resnet import resnet18
from dtlib.sim import activations, shapes, tensors
from dtlib.sim.estimate import BACKWARD, END, STEP, Setup, estimate
from dtlib.strategies.ddp import reducer_settings
from tests.sim.alive import Live


def measured_peak(loss_sum, model, precision: str = "fp32") -> int:
    """Most bytes alive in the second step of AdamW, whose moments are there by then."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    moments = [t for state in optimizer.state.values() for t in state.values()]
    live = Live([*model.parameters(), *model.buffers(), *moments])
    with live:
        step()
    return live.most


def whole_loss(model, inputs, labels):
    def loss_sum():
        return F.cross_entropy(model(inputs).flatten(0, -2), labels.flatten(), reduction="sum")

    return loss_sum


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("vocabulary", "b", "s"), [(50, 2, 64), (2000, 2, 64), (50, 1, 8)],
    ids=["activations", "logits", "states"],
)  # fmt: skip
def test_peak_is_that_of_a_real_step(vocabulary, b, s, precision):
    """From below: what is predicted is there. From above: gradients inside one MLP come on top.

    GELU's backward has the gradients of its output and of its input, 4·s·b·h elements each, and of
    the bias; autocast casts one of them once more.
    """
    shape = shapes.GPT["nano"]
    model = GPT(GPTConfig(vocab_size=vocabulary, **shape))
    tokens = torch.randint(0, vocabulary, (b, s))
    measured = measured_peak(whole_loss(model, tokens, tokens.clone()), model, precision)
    sizes = {"micro_batch": b, "max_length": s, "vocab_size": vocabulary}
    found = estimate(Setup("nano", "single", precision=precision, **sizes))
    inside = 3 * 4 * s * b * shape["width"] * 4
    _, most = found.peak()
    assert most <= measured <= most + inside
    assert inside < 0.1 * most


@pytest.mark.parametrize("checkpointing", activations.CHECKPOINTING)
def test_peak_of_a_step_whose_loss_is_in_chunks(checkpointing, monkeypatch):
    """As `dtlib train` has it: the same bounds as above, beside a chunk that logsumexp copies."""
    b, s, vocabulary = 4, 64, 4000
    monkeypatch.setattr(activations, "CHUNK", 32 * vocabulary)
    shape = shapes.GPT["nano"]
    model = GPT(GPTConfig(vocab_size=vocabulary, **shape), checkpointing=checkpointing)
    tokens = torch.randint(0, vocabulary, (b, s))
    measured = measured_peak(lambda: model(tokens, tokens), model)
    sizes = {"micro_batch": b, "max_length": s, "vocab_size": vocabulary, "loss": "auto"}
    setup = Setup("nano", "single", checkpointing=checkpointing, **sizes)
    most = estimate(setup).peak()[1]
    again = rows(setup).get("recomputed", 0)  # which `estimate` adds to what the loss takes
    assert most - 4 * 32 * vocabulary - again <= measured
    assert measured <= most + 3 * 4 * s * b * shape["width"] * 4
    assert most < estimate(dataclasses.replace(setup, loss="whole")).peak()[1]


def test_peak_of_a_resnet():
    b = 16
    model = resnet18(16)
    pictures, labels = torch.rand(b, 3, 32, 32), torch.zeros(b, dtype=torch.int64)
    measured = measured_peak(whole_loss(model, pictures, labels), model)
    _, most = estimate(Setup("resnet18-narrow", "single", micro_batch=b)).peak()
    # on the way back three maps of the first stage are there: two gradients and their sum
    assert most <= measured <= most + 3 * b * 16 * 32 * 32 * 4


def rows(setup: Setup) -> dict[str, int]:
    return {row.kind: row.size for row in estimate(setup).rows if row.place == "device"}


def test_kinds_by_hand():
    psi, block = 124_439_808, 12 * 768**2 + 13 * 768
    found = rows(Setup("gpt2", "zero2", ranks=8, micro_batch=4, precision="bf16"))
    assert found["parameters"] == 2 * psi
    assert found["gradients"] == 2 * psi // 8
    assert found["optimizer"] == 8 * psi // 8
    assert found["fp32_copy"] == found["fp32 gradients"] == 4 * psi // 8
    assert found["tied embedding"] == 2 * 2 * 50_257 * 768
    assert found["bucket"] == 2 * (psi // 4)
    assert found["logits"] == 3 * 4 * 4 * 1024 * 50_257
    assert found["activations"] == activations.gpt(1024, 4, 12, 768, 12, "mixed")
    fsdp = rows(Setup("gpt2", "fsdp", ranks=8, precision="bf16"))
    root = psi - 12 * block
    assert fsdp["gathered"] == 2 * (root + 2 * block)
    assert "unreduced" not in fsdp
    assert rows(Setup("gpt2", "fsdp", ranks=8, accumulation=2))["unreduced"] == 4 * psi


def test_gradients_are_there_when_backward_begins_only_under_accumulation():
    one, two = (estimate(Setup("nano", "zero1", ranks=2, accumulation=a)) for a in (1, 2))
    gradients = 4 * one.parameters
    assert two.peaks[BACKWARD] - one.peaks[BACKWARD] == gradients
    assert two.peaks[END] == one.peaks[END]
    assert two.peaks[STEP] == one.peaks[STEP]


@pytest.mark.parametrize("ranks", [1, 2])
def test_buckets_of_ddp_hold_the_gradients_between_steps_too(ranks):
    """Exactly: the storages of the gradients of a real step, and whether they outlive it."""
    model = GPT(GPTConfig(vocab_size=50, **shapes.GPT["nano"]))
    tokens = torch.zeros(1, 8, dtype=torch.int64)
    with one_rank() if ranks > 1 else contextlib.nullcontext():
        settings = reducer_settings(RunConfig("text"))
        wrapped = DistributedDataParallel(model, **settings) if ranks > 1 else model
        for _ in range(3):  # DDP lays its buckets out anew after the first step
            wrapped.zero_grad()
            wrapped(tokens).sum().backward()
        storages = {t.grad.untyped_storage()._cdata: t.grad for t in model.parameters()}
        alive = [StorageWeakRef(t.untyped_storage()) for t in storages.values()]
        size = sum(grad.untyped_storage().nbytes() for grad in storages.values())
        del storages
        wrapped.zero_grad()
        kept = {not ref.expired() for ref in alive}
    setup = Setup("nano", "ddp", ranks=ranks, vocab_size=50, max_length=8)
    (row,) = (row for row in estimate(setup).rows if row.kind == "gradients")
    assert row.size == size
    assert {BACKWARD in row.moments} == kept


@contextlib.contextmanager
def one_rank():
    """A process group of one, in which torch's DDP makes its buckets as among many."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_parameters_and_buffers_of_the_real_resnet():
    found, model = rows(Setup("resnet18-narrow", "single")), resnet18(16)
    assert found["parameters"] == 4 * sum(p.numel() for p in model.parameters())
    assert found["buffers"] == sum(t.numel() * t.element_size() for t in model.buffers())
    assert "buffers" not in rows(Setup("resnet18-narrow", "single", norm="group"))


def test_flop_of_a_step_count_every_micro_batch():
    model, done = estimate(Setup("nano", "single", accumulation=3, checkpointing="full")).flop
    assert model == 3 * estimate(Setup("nano", "single")).flop[0]
    assert done > model
    one = estimate(Setup("resnet18", "single", micro_batch=2)).flop[0]
    assert one == pytest.approx(2 * 3.33e9, rel=1e-3)


# --- the command ---------------------------------------------------------------------------------

WORDS = ["sim", "memory", "--model", "gpt2", "--strategy", "zero2", "--ranks", "8"]
WORDS += ["--micro-batch", "4", "--precision", "bf16"]


def test_table_for_people(capsys):
    assert cli.main([*WORDS, "--device", "h100"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Simulated: gpt2, 124,439,808 parameters, strategy zero2, bf16 on 8")
    for kind in ("parameters", "fp32 copy", "gradients", "optimizer", "activations", "logits"):
        assert f"    {kind:<15}" in shown
    assert "It fits on NVIDIA H100 SXM 80 GB: at most 2.232 of 85.899 GB (3%)" in shown
    assert "all_reduce, gradients" in shown


def test_the_loss_is_that_of_the_trainer_unless_another_is_asked_for(capsys):
    """4 · 1024 · 50,257 logits are more than are ever whole; fp16 has them all the same."""
    for more, said in (([], "in chunks"), (["--loss", "whole"], "of all logits at once"),
                       (["--precision", "fp16"], "of all logits at once")):  # fmt: skip
        assert cli.main([*WORDS, *more, "--checkpointing", "selective"]) == 0
        shown = capsys.readouterr().out
        assert f"Vocabulary of 50,257, loss {said}" in shown
        assert "checkpointing selective." in shown
    assert Setup().loss == "whole"


def test_too_large_and_nearly_too_large(capsys):
    words = ["sim", "memory", "--model", "gpt2-xl", "--micro-batch", "4", "--strategy", "single"]
    assert cli.main([*words, "--device", "rtx3090"]) == 0
    assert "It does not fit on NVIDIA GeForce RTX 3090 24 GB" in capsys.readouterr().out
    words = ["sim", "memory", "--strategy", "single", "--micro-batch", "18", "--device", "rtx3090"]
    words += ["--loss", "whole"]
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert "It fits on" in shown
    assert "less than 10% free" in shown


def test_a_device_without_the_precision_is_named(capsys):
    words = [word if word != "bf16" else "{}" for word in WORDS]
    for precision, device, instead in (
        ("bf16", "v100", "fp16"), ("tf32", "v100", "fp32"),
        ("fp16", "v100", None), ("bf16", "a100-40", None),
    ):  # fmt: skip
        asked = [precision if word == "{}" else word for word in words]
        if precision == "tf32":
            asked[asked.index("zero2")] = "ddp"
        assert cli.main([*asked, "--device", device]) == 0
        said = f"does not compute in {precision}; use --precision {instead}."
        assert (said in capsys.readouterr().out) == bool(instead)
        assert cli.main([*asked, "--device", device, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["device"]["has_precision"] == (not instead)


def test_json_has_the_same_numbers(capsys):
    assert cli.main([*WORDS, "--device", "a100-40", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured_or_simulated"] == "simulated"
    assert found["parameters"] == tensors.count(tensors.gpt(12, 768, 1024, 50_257))
    device = [row for row in found["memory"] if row["place"] == "device"]
    for moment, size in found["peaks"].items():
        assert size == sum(row["size"] for row in device if moment in row["moments"])
    assert found["peak"]["bytes"] == max(found["peaks"].values())
    assert found["device"]["fits"] is True
    assert {row["collective"] for row in found["communication"]} == {"all_reduce", "all_gather"}


def test_ranks_are_those_that_train_would_start(capsys):
    for strategy, ranks in (("single", 1), ("ddp", 2)):
        assert cli.main(["sim", "memory", "--strategy", strategy, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["setup"]["ranks"] == ranks


BAD = {
    "sim memry": "unknown simulation 'memry'; choose from memory. Did you mean 'memory'?",
    "sim memory --modell gpt2": "unknown setting '--modell'. Did you mean '--model'?",
    "sim memory --model gpt3": "unknown model 'gpt3'",
    "sim memory --strategy zerro2": "Did you mean 'zero2'?",
    "sim memory --device h1000": "Did you mean 'h100'?",
    "sim memory --precision bf61": "Did you mean 'bf16'?",
    "sim memory --attention flush": "Did you mean 'flash'?",
    "sim memory --checkpointing all": "checkpointing 'all' is not offered; choose from none, ",
    "sim memory --ranks many": "ranks is 'many'; it must be a whole number.",
    "sim memory --ranks 0": "ranks is 0; it must be at least 1.",
    "sim memory --micro-batch 0": "micro_batch is 0; it must be at least 1.",
    "sim memory --micro-batch 1000000000000 --device v100": "it must be at most 1000000.",
    "sim memory --max-length 2000": "max_length 2000 exceeds the context of gpt2, which is 1024",
    "sim memory --model resnet18 --attention materialised": "belongs to a GPT; resnet18 is",
    "sim memory --strategy single --ranks 4": "single is one rank, not 4",
    "sim memory --strategy ddp --shard-ranks 2": "shard_ranks 2 belongs to fsdp",
    "sim memory --strategy fsdp --ranks 4 --shard-ranks 3": "must divide the number of ranks, 4",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_sentence_and_exit_2(capsys, words):
    assert cli.main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert BAD[words] in shown.err
    assert shown.err.count("\n") == 1


def test_help_names_every_setting(capsys):
    assert cli.main(["sim"]) == 0
    assert "dtlib sim memory" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["sim", "memory", "--help"])
    shown = capsys.readouterr().out
    for field in dataclasses.fields(Setup):
        assert f"--{field.name.replace('_', '-')} " in shown.replace("\n", " ")
    for action in simulate._parser()._actions:
        assert action.help, f"{action.dest} has no help"
