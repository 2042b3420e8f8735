"""What is learnt, where a laptop takes minutes: text of known entropy, and real data."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

import dtlib

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("own_folder")]


def test_loss_on_fresh_text_approaches_the_entropy_from_above():
    run = dtlib.train(
        "text", 1, data="grammar", steps=150, warmup_steps=25, eval_every=50, strategy="single"
    )
    entropy, error, best = (
        run.summary["evaluation"][key]
        for key in ("entropy", "sampling_error", "best_loss_on_this_text")
    )
    above = [line["valid_loss"] - entropy for line in run.evaluations]
    print("nats above the entropy:", [round(gap, 3) for gap in above], "sampling error", error)
    # The text's own best loss is a draw around the entropy: three standard errors hold 99.7 %.
    assert abs(best - entropy) < 3 * error
    assert all(gap > -3 * error for gap in above)
    # Scored on the same text the draw cancels, and what is left is how far the model is off.
    assert all(line["valid_loss"] > best for line in run.evaluations)
    # It starts from the words' frequencies (1.6 nats above) and ends below what pairs of words
    # tell (0.35 above), so it has learnt what stands further apart.
    assert above[0] > above[-1]
    assert 0 < above[-1] < 0.35


@pytest.fixture
def cifar10(real_data: Path, tmp_path: Path) -> str:
    script = real_data / "to_cifar_binary.py"
    size = ["--train", "4000", "--test", "1000"]
    subprocess.run([sys.executable, script, tmp_path, *size], check=True)
    return str(tmp_path)


@pytest.mark.data
def test_narrow_resnet_learns_cifar10_better_than_a_linear_model(cifar10):
    run = dtlib.train("images", 2, data=cifar10, epochs=2, baseline=True)
    found = run.summary["evaluation"]
    print(found)
    # Three standard errors of the difference of two shares of 1,000 pictures: 3 * sqrt(2 / 4 / n)
    margin = 3 * math.sqrt(0.5 / found["test_samples"])
    assert found["test_accuracy"] > found["linear_test_accuracy"] + margin
    assert found["linear_test_accuracy"] > 0.1 + margin


@pytest.mark.data
def test_perplexity_of_wikitext2_falls(real_data, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(real_data))
    run = dtlib.train("text", 2, data="wikitext2", steps=120, eval_every=40, lr=3e-3)
    perplexity = [line["valid_perplexity"] for line in run.evaluations]
    print(perplexity, run.summary["evaluation"]["protocol"])
    assert perplexity == sorted(perplexity, reverse=True)
    assert len(perplexity) == 3 and perplexity[-1] < 0.9 * perplexity[0]
