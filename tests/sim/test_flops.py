"""Predicted FLOP against torch's counter on the real models, and against published figures."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dtlib.models.gpt import GPT, GPTConfig, shape
from dtlib.models.resnet import resnet18
from dtlib.sim import flops, hardware, tensors
from tests.sim import published


@pytest.mark.parametrize(
    ("b", "s", "layers", "heads", "width"), [(3, 16, 2, 4, 32), (1, 5, 3, 2, 24)]
)
def test_gpt_counts_what_torch_counts(b, s, layers, heads, width):
    config = GPTConfig(vocab_size=40, context=16, layers=layers, heads=heads, width=width)
    model, tokens = GPT(config), torch.zeros(b, s, dtype=torch.int64)
    # The math kernel's products are counted one by one; torch's flash kernel for CPUs counts none.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        logits = model(tokens)
        forward = counter.get_total_flops()
        logits.sum().backward()
    predicted = flops.gpt_forward(b * s, s, layers, width, 40)
    assert forward == sum(predicted.values())
    step = flops.gpt_step(b * s, s, layers, width, 40)
    assert counter.get_total_flops() == step[0] == step[1]


@pytest.mark.parametrize("width", [8, 16])
def test_resnet_counts_what_torch_counts(width):
    b, model = 2, resnet18(width)
    with FlopCounterMode(display=False) as counter:
        loss = F.cross_entropy(model(torch.rand(b, 3, 32, 32)), torch.zeros(b, dtype=torch.int64))
        loss.backward()
    predicted = flops.resnet_step(b, tensors.resnet_convolutions(width), 8 * width)
    assert counter.get_total_flops() == predicted


def test_resnet18_takes_3_33_gigaflop_a_picture():
    """And 0.556 GMAC in forward, as counters have it that also count the norms."""
    layers = tensors.resnet_convolutions(64)
    assert sum(flops.convolutions(1, layers)) / 2e9 == pytest.approx(0.556, abs=1e-3)
    assert flops.resnet_step(1, layers, 512) / 1e9 == pytest.approx(3.33, abs=5e-3)


@pytest.mark.parametrize("name", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_rules_of_thumb_are_near_the_count(name):
    """PaLM's rule counts position embedding, biases and norms too: less than 1 %."""
    config = shape(name)
    with torch.device("meta"):
        parameters = sum(p.numel() for p in GPT(config).parameters())
    sizes = (config.layers, config.width)
    exact, _ = flops.gpt_step(1024, 1024, *sizes, config.vocab_size)
    palm = published.palm(parameters, 1024, 1024, *sizes)
    extra = 6 * 1024 * (13 * config.layers * config.width + (1024 + 2) * config.width)
    assert palm - extra == exact
    assert 0 < extra < 0.01 * exact
    # Kaplan's rule leaves out attention and embeddings
    forward = flops.gpt_forward(1024, 1024, *sizes, config.vocab_size)
    assert flops.kaplan(12 * config.layers * config.width**2, 1024) == 3 * forward["linear"]


def test_narayanans_formula_is_the_same_count():
    """Both of its forms: with V/16Lh the logits are three forwards' worth, recomputed never."""
    b, s, layers, width, vocabulary = 3, 2048, 36, 4096, 51_200
    model, hardware_flop = flops.gpt_step(b * s, s, layers, width, vocabulary, "full")
    assert published.narayanan(b, s, layers, width, vocabulary, recompute=False) == pytest.approx(
        model, rel=1e-12
    )
    assert published.narayanan(b, s, layers, width, vocabulary) == pytest.approx(
        hardware_flop, rel=1e-12
    )


# Narayanan et al. 2021, table 1 (A100, sequence 2048, V 51,200): width, layers, GPUs, global batch,
# TFLOP/s per GPU, percent of the peak, and the iteration in seconds that follows from them.
MEGATRON = [
    (2304, 24, 32, 512, 137, 44, 3.53),
    (4096, 36, 128, 512, 142, 46, 3.70),
    (12288, 80, 1536, 2304, 148, 47, 24.82),
    (25600, 128, 3072, 3072, 163, 52, 102.63),
]


@pytest.mark.parametrize("row", MEGATRON)
def test_megatrons_table(row):
    width, layers, gpus, batch, teraflops, percent, seconds = row
    flop = published.narayanan(batch, 2048, layers, width, 51_200)
    assert flop / (gpus * teraflops * 1e12) == pytest.approx(seconds, abs=0.006)  # printed digits
    share = published.utilisation(flop, seconds, gpus, hardware.peak("a100-80", "fp16"))
    assert 100 * share == pytest.approx(percent, abs=0.6)


# Korthikanti et al. 2022, table 5 (A100, selective recomputation, sequence 2048, V 51,200): width,
# layers, GPUs, global batch, seconds, MFU and HFU in percent.
KORTHIKANTI = [
    (6144, 48, 8, 4, 1.10, 41.5, 43.7),
    (12288, 96, 64, 64, 13.75, 51.4, 52.8),
    (20480, 105, 280, 280, 37.83, 56.0, 57.0),
    (25600, 128, 512, 512, 71.49, 56.3, 57.0),
]


@pytest.mark.parametrize("row", KORTHIKANTI)
def test_mfu_and_hfu_of_korthikantis_table(row):
    width, layers, gpus, batch, seconds, mfu, hfu = row
    printed = published.korthikanti_flop(batch, 2048, layers, width, 51_200)
    peak = hardware.peak("a100-80", "fp16")
    found = [100 * published.utilisation(f, seconds, gpus, peak) for f in printed]
    # 1.10 s is known to half a percent, the rest better; percents are printed to 0.1
    assert found == pytest.approx([mfu, hfu], rel=0.005, abs=0.05)
    model, done = flops.gpt_step(batch * 2048, 2048, layers, width, 51_200, "attention")
    assert model == pytest.approx(printed[0], rel=1e-12)
    # one more forward of attention is a third of what was published as recomputed
    assert done - model == pytest.approx((printed[1] - printed[0]) / 3, rel=1e-9)


def test_mfu_of_palm():
    """540B on 6144 TPU v4 (275 TFLOP/s), 238,300 tokens/s: 46.2 %, and 45.7 % without attention."""
    parameters, width, tokens = 540.35e9, 48 * 256, 238.3e3
    step = published.palm(parameters, tokens, 2048, 118, width)
    assert 100 * published.utilisation(step, 1.0, 6144, 275e12) == pytest.approx(46.2, abs=0.05)
    rule = flops.kaplan(parameters, tokens)
    assert 100 * published.utilisation(rule, 1.0, 6144, 275e12) == pytest.approx(45.7, abs=0.05)


def test_what_recomputation_costs():
    """GPT-3: 2.7 % by the published formula (Korthikanti et al. 2022); a third of it by count."""
    model, hardware_flop = published.korthikanti_flop(1, 2048, 96, 12288, 51_200)
    assert 100 * (hardware_flop / model - 1) == pytest.approx(2.7, abs=0.05)
    size = (2048, 2048, 96, 12288, 51_200)
    forward = flops.gpt_forward(*size)
    for checkpointing, again in (
        ("attention", ["attention"]), ("linear", ["linear"]), ("selective", []),
        ("full", ["linear", "attention"]),
    ):  # fmt: skip
        model, done = flops.gpt_step(*size, checkpointing)
        assert done - model == sum(forward[part] for part in again)


# --- hardware ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hardware.DEVICES)
def test_every_device_is_complete_and_has_its_source(name):
    device = hardware.DEVICES[name]
    assert {"title", "memory", "peak", "bandwidth", "link", "link_name", "source"} <= set(device)
    assert device["source"]
    peaks = device["peak"]
    order = [peaks[p] for p in ("fp64", "fp32", "tf32", "fp16", "fp8") if p in peaks]
    assert order == sorted(order), "fewer bits are never slower"
    assert peaks.get("bf16", peaks.get("fp16")) == peaks.get("fp16", peaks.get("bf16"))
    assert device.get("reached", 0) < max(peaks.values())


def test_peaks_are_dense():
    """The data sheets' figures with sparsity are twice these."""
    found = {name: hardware.peak(name, "bf16") / 1e12 for name in ("a100-80", "h100", "b200")}
    assert found == {"a100-80": 312, "h100": 989, "b200": 2250}


def test_mixed_precision_means_fp16_before_there_was_bf16():
    assert hardware.peak("v100", "mixed") == hardware.peak("v100", "fp16") == 125e12
    assert hardware.peak("h100", "autocast") == hardware.peak("h100", "bf16")
    with pytest.raises(KeyError):
        hardware.peak("v100", "bf16")
