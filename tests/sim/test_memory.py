"""States and traffic against the ZeRO paper, against DeepSpeed's estimators, and by hand."""

import ast
from pathlib import Path

import pytest
import torch

import dtlib.sim
from dtlib.errors import BadInput
from dtlib.models.gpt import GPT, shape
from dtlib.models.resnet import resnet18
from dtlib.sim import memory, states, tensors
from dtlib.sim.memory import States, by_collective, communication, model_states
from dtlib.sim.shapes import RESNET

# Rajbhandari et al. 2020, table 1: GB (10⁹) a device, by ranks, at stages 1, 2 and 3.
TABLE_1 = """
         7.5B               128B               1T
1        120  120  120      2048 2048 2048     16000 16000 16000
4        52.5 41.3 30       896  704  512      7000  5500  4000
16       35.6 21.6 7.5      608  368  128      4750  2875  1000
64       31.4 16.6 1.88     536  284  32       4187  2218  250
256      30.4 15.4 0.47     518  263  8        4046  2054  62.5
1024     30.1 15.1 0.12     513  257  2        4011  2013  15.6
"""
SIZES = (7_500_000_000, 128_000_000_000, 1_000_000_000_000)


def cells():
    for line in TABLE_1.splitlines()[2:]:
        ranks, *printed = line.split()
        for column, text in enumerate(printed):
            yield int(ranks), SIZES[column // 3], f"zero{column % 3 + 1}", text


def test_table_1_of_the_zero_paper():
    """Within one unit of the last printed digit: the table rounds in places and cuts in others."""
    assert len(list(cells())) == 54
    for ranks, parameters, strategy, text in cells():
        unit = 10 ** -len(text.partition(".")[2])
        total = model_states(parameters, ranks, strategy, "mixed", kept="paper").total
        assert abs(total / 1e9 - float(text)) < unit, (ranks, parameters, strategy)


def test_figure_1_of_the_zero_paper():
    """7.5B on 64 ranks with K = 12: 120, 31.4, 16.6 and 1.9 GB."""
    found = [
        model_states(SIZES[0], 64, strategy, "mixed", kept="paper").total / 1e9
        for strategy in ("ddp", "zero1", "zero2", "zero3")
    ]
    assert [round(gb, 1) for gb in found] == [120.0, 31.4, 16.6, 1.9]


def test_eightfold_is_the_limit_and_not_what_four_ranks_get():
    saving = [
        model_states(10**9, 1, "zero2", "mixed").total
        / model_states(10**9, ranks, "zero2", "mixed").total
        for ranks in (4, 100_000)
    ]
    assert saving[0] == pytest.approx(16 / (2 + 14 / 4)) == pytest.approx(2.909, abs=5e-4)
    assert saving[1] == pytest.approx(8, rel=1e-4)


FP32 = {  # bytes a parameter: weight, gradient, moments, fp32 copy, at N = 4
    "single": (4, 4, 8, 0),
    "ddp": (4, 4, 8, 0),
    "dp": (4, 4, 8, 0),
    "accelerate": (4, 4, 8, 0),
    "lightning": (4, 4, 8, 0),
    "zero1": (4, 4, 2, 1),
    "zero2": (4, 1, 2, 1),
    "zero3": (1, 1, 2, 1),
    "fsdp": (1, 1, 2, 0),
}


@pytest.mark.parametrize("strategy", FP32)
def test_fp32(strategy):
    ranks = 1 if strategy == "single" else 4
    expected = States(*(1000 * size for size in FP32[strategy]))
    assert model_states(1000, ranks, strategy) == expected
    paper = model_states(1000, ranks, strategy, kept="paper")
    assert paper == expected._replace(fp32_copy=0)  # DeepSpeed's copy is not the idea's


def test_bf16_is_what_the_strategy_makes_of_it():
    """Autocast and FSDP's policy keep fp32 weights and save nothing; DeepSpeed has 2+2+12."""
    assert model_states(1000, 4, "ddp", "bf16") == (4000, 4000, 8000, 0)
    assert model_states(1000, 4, "fsdp", "bf16") == (1000, 1000, 2000, 0)
    assert model_states(1000, 4, "zero1", "bf16") == (2000, 2000, 2000, 1000)
    assert model_states(1000, 4, "zero3", "fp16") == (500, 500, 2000, 1000)


def test_optimizers_keep_two_moments_one_or_none():
    for optimizer, moments in (("adamw", 2), ("sgd", 1), ("sgd-plain", 0)):
        assert model_states(1000, 1, "single", optimizer=optimizer).optimizer == moments * 4000


def test_offload_keeps_the_weights_here_and_the_rest_on_the_host():
    def held(place: str, **more) -> tuple[int, ...]:
        return model_states(1000, 4, "offload", "bf16", place=place, **more)

    assert held("device") == (2000, 0, 0, 0)
    assert held("host") == (0, 1000, 2000, 1000)  # DeepSpeed's gradients wait there in fp32
    assert held("host", kept="paper") == (0, 500, 2000, 1000)
    assert held("disk") == (0, 0, 0, 0)
    assert held("all") == (2000, 1000, 2000, 1000)
    assert held("device", zero_stage=3) == (500, 0, 0, 0)


def test_infinity_keeps_weights_and_optimizer_on_disk():
    assert model_states(1000, 4, "infinity", "bf16").total == 0
    assert model_states(1000, 4, "infinity", "bf16", place="host") == (0, 1000, 0, 0)
    assert model_states(1000, 4, "infinity", "bf16", place="disk") == (500, 0, 2000, 1000)


def test_hybrid_sharding_divides_by_the_group():
    assert model_states(1000, 8, "fsdp", shard_ranks=2) == model_states(1000, 2, "fsdp")
    offloaded = model_states(1000, 8, "fsdp", shard_ranks=2, cpu_offload=True)
    assert offloaded.total == 0
    host = model_states(1000, 8, "fsdp", shard_ranks=2, cpu_offload=True, place="host")
    assert host == model_states(1000, 2, "fsdp")


def test_shards_are_rounded_up():
    assert model_states(10, 4, "zero3", "mixed") == (6, 6, 24, 12)
    assert states.padded_flat(10, 4) == 16
    assert states.padded_each([10, 4], 4) == 16
    assert states.padded_rows([("a", (3, 5)), ("b", (8,))], 2) == 4 * 5 + 8


# --- communication -------------------------------------------------------------------------------


def wire(strategy: str, accumulation: int = 1, ranks: int = 4, **more) -> float:
    """Ring wire in parameters times (N-1)/N, where a parameter travels in 4 bytes."""
    rows = communication(1000, ranks, strategy, accumulation, **more)
    return sum(row.wire for row in rows) / (4 * 1000 * (ranks - 1) / ranks)


def test_volume_of_the_paper_and_of_deepspeed():
    assert [wire(s, kept="paper") for s in ("ddp", "zero1", "zero2", "zero3")] == [2, 2, 2, 3]
    # by default DeepSpeed all-reduces where the paper reduce-scatters
    assert [wire(s) for s in ("ddp", "zero1", "zero2", "zero3")] == [2, 3, 3, 3]


def test_volume_under_accumulation_and_of_one_rank():
    assert [wire(s, 4) for s in ("ddp", "zero1", "zero2", "zero3")] == [2, 3, 2 * 4 + 1, 3 * 4]
    assert wire("zero2", 4, kept="paper") == 4 + 1
    assert wire("fsdp", 4) == 2 * 4 + 1  # as dtlib uses it, gradients are reduced once
    for strategy in ("single", "ddp", "zero1", "zero2", "zero3", "fsdp"):
        assert communication(1000, 1, strategy) == []  # one rank sends nothing


def test_what_a_step_of_each_strategy_calls():
    def payload(strategy: str, ranks: int = 4, **more) -> dict[str, int]:
        rows = by_collective(communication(1000, ranks, strategy, **more))
        return {name: row.payload for name, row in rows.items()}

    assert payload("ddp") == {"all_reduce": 4000}
    assert payload("ddp", compress_gradients=True) == {"all_reduce": 2000}
    assert payload("zero2", kept="paper") == {"reduce_scatter": 4000, "all_gather": 4000}
    assert payload("zero2", precision="bf16") == {"all_reduce": 2000, "all_gather": 2000}
    assert payload("zero3") == {"all_gather": 8000, "reduce_scatter": 4000}
    # the root's weights are gathered once instead of twice
    assert payload("fsdp", root=100) == {"all_gather": 7600, "reduce_scatter": 4000}
    assert payload("fsdp", precision="bf16") == {"all_gather": 4000, "reduce_scatter": 4000}
    hybrid = payload("fsdp", shard_ranks=2)
    assert hybrid == {"all_gather": 8000, "reduce_scatter": 4000, "all_reduce": 2000}


def test_hybrid_sharding_sends_between_groups_what_the_fsdp_paper_says():
    """Zhao et al. 2023: 2M(W/G-1)/W bytes cross hosts, where full sharding has 3M(W-1)/W."""
    size, world, group = 4 * 1024, 16, 8
    rows = communication(1024, world, "fsdp", shard_ranks=group)
    between = next(row.wire for row in rows if row.collective == "all_reduce")
    assert between == 2 * size * (world / group - 1) / world
    full = sum(row.wire for row in communication(1024, world, "fsdp"))
    assert full == 3 * size * (world - 1) / world


def test_bus_and_disk():
    """ZeRO-Offload: 2Ψ bytes down and 2Ψ up with bf16 on one rank; lesson 18 counts DeepSpeed's."""
    for more, down in (({"kept": "paper"}, 2000), ({}, 4000), ({"zero_stage": 3}, 2000)):
        moved = by_collective(communication(1000, 1, "offload", precision="bf16", **more))
        assert moved["to_host"].payload == down
        assert moved["to_device"].payload == 2000
    moved = by_collective(communication(1000, 1, "infinity", precision="bf16"))
    assert moved["disk_read"].payload == 2 * 2000 + 12_000
    assert moved["disk_write"].payload == 2000 + 12_000
    # in fp32 DeepSpeed has a further copy of the weights there
    for kept, copy in (("framework", 4), ("paper", 0)):
        moved = by_collective(communication(1000, 1, "infinity", kept=kept))
        assert moved["disk_write"].payload == 4000 + (8 + copy) * 1000


# --- DeepSpeed's own estimators ------------------------------------------------------------------

deepspeed_sizes = pytest.mark.parametrize("ranks", [1, 4, 8])
PSI, LARGEST = 124_439_808, 50_257 * 768


@deepspeed_sizes
def test_deepspeeds_estimator_of_stage_2(ranks):
    stage_1_and_2 = pytest.importorskip("deepspeed.runtime.zero.stage_1_and_2")
    estimate = stage_1_and_2.estimate_zero2_model_states_mem_needs

    _, gpu = estimate(PSI, ranks, 1, cpu_offload=False)
    ours = model_states(PSI, ranks, "zero2", "mixed").total
    # It counts gradients twice: in 16 bits, and in fp32 as the optimizer step makes them (4Ψ/N).
    assert gpu - ours == pytest.approx(4 * PSI / ranks, abs=1)

    cpu, gpu = estimate(PSI, ranks, 1, cpu_offload=True, additional_buffer_factor=1)
    assert gpu == model_states(PSI, ranks, "offload", "mixed").total
    # On the host it agrees (16Ψ on the node, whatever the ranks) until 4 bytes a rank exceed that:
    # every process first builds the whole model in fp32, which is over before training begins.
    host = ranks * model_states(PSI, ranks, "offload", "mixed", place="host").total
    assert host == 16 * PSI
    assert cpu == max(host, 4 * ranks * PSI)


@deepspeed_sizes
def test_deepspeeds_estimator_of_stage_3(ranks):
    stage3 = pytest.importorskip("deepspeed.runtime.zero.stage3")
    estimate = stage3.estimate_zero3_model_states_mem_needs

    _, gpu, gathered = estimate(PSI, LARGEST, ranks, 1, cpu_offload=False)
    ours = model_states(PSI, ranks, "zero3", "mixed").total
    # It has the largest layer whole beside them, weight and gradient, which is a buffer; and it
    # counts gradients in fp32, not in 16 bits (2Ψ/N more).
    assert gathered == 4 * LARGEST
    assert gpu - ours - gathered == pytest.approx(2 * PSI / ranks, abs=1)

    cpu, gpu, _ = estimate(PSI, LARGEST, ranks, 1, True, False, True, additional_buffer_factor=1)
    stage_3 = {"strategy": "offload", "precision": "mixed", "zero_stage": 3}
    assert gpu - gathered == model_states(PSI, ranks, **stage_3).total
    assert cpu == ranks * model_states(PSI, ranks, place="host", **stage_3).total

    cpu, gpu, _ = estimate(PSI, LARGEST, ranks, 1, True, True, True, additional_buffer_factor=1)
    away = [model_states(PSI, ranks, "infinity", "mixed", place=p).total for p in memory.PLACES]
    # It knows the host and no disk, so what lies on the disk is the host's: 18Ψ in all.
    assert gpu == gathered and away[0] == 0
    assert cpu == ranks * sum(away)


# --- parameters, and what is refused -------------------------------------------------------------


@pytest.mark.parametrize("name", ["nano", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_parameters_of_a_gpt(name):
    config = shape(name)
    with torch.device("meta"):
        model = GPT(config)
    expected = [(key, tuple(p.shape)) for key, p in model.named_parameters()]
    assert tensors.gpt(config.layers, config.width, config.context, config.vocab_size) == expected


def test_parameters_of_a_resnet():
    for width in RESNET.values():
        expected = {key: tuple(p.shape) for key, p in resnet18(width).named_parameters()}
        assert dict(tensors.resnet(width)) == expected
    assert tensors.count(tensors.resnet(64)) == 11_173_962


BAD = {
    "Did you mean 'zero2'?": {"strategy": "zerro2"},
    "choose from tf32, bf16, fp16, mixed": {"precision": "fp23"},
    "unknown optimizer 'adam'": {"optimizer": "adam"},
    "place 'gpu' is not offered": {"place": "gpu"},
    "single is one rank, not 4": {"strategy": "single"},
    "ranks is 0; it must be at least 1": {"ranks": 0},
    "zero_stage 3 does not go with strategy zero2": {"zero_stage": 3},
    "shard_ranks 2 belongs to fsdp": {"shard_ranks": 2},
    "shard_ranks 3 must divide the number of ranks, 4": {"strategy": "fsdp", "shard_ranks": 3},
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_contradicts_is_refused(sentence):
    given = {"parameters": 1000, "ranks": 4, "strategy": "zero2", **BAD[sentence]}
    with pytest.raises(BadInput) as refused:
        model_states(**given)
    assert sentence in str(refused.value)


def test_formulas_for_the_page_import_nothing_but_math():
    """A page without a kernel runs their text in MicroPython (see `learn.what_if`)."""
    folder = Path(dtlib.sim.__file__).parent
    for name in ("states", "activations", "flops", "hardware", "tensors", "collectives"):
        tree = ast.parse((folder / f"{name}.py").read_text())
        found = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
        assert {ast.unparse(n) for n in found} <= {"import math"}, name
