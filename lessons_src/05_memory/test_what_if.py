"""The sliders of lesson 05 say what the library's estimate says."""

import pytest

from dtlib.sim.estimate import Setup, estimate

from .what_if import over_micro_batches


@pytest.mark.parametrize(("bits", "recipe"), [(32, "fp32"), (16, "mixed")])
@pytest.mark.parametrize("checkpointing", [0, 1])
def test_the_sliders_say_what_the_estimate_says(bits, recipe, checkpointing):
    """GPT-2 as `estimate` has it, at the two moments that are drawn."""
    how = {"precision": recipe, "checkpointing": "full" if checkpointing else "none"}
    for b in (1, 8, 64):
        peaks = estimate(Setup("gpt2", "single", micro_batch=b, **how)).peaks
        drawn = over_micro_batches(12, 768, 1024, b, bits, checkpointing)
        assert drawn["point"] == [b, peaks["when backward begins"] / 1e9]
        assert drawn["curves"]["+ logits"][b - 1] == drawn["point"]
        step = f"optimizer's step {peaks['when the optimizer steps'] / 1e9:.1f} GB."
        assert step in drawn["says"]
        heights = [drawn["curves"][name][b - 1][1] for name in ("states", "+ blocks", "+ logits")]
        assert heights == sorted(heights)


def test_the_batch_that_80_gb_hold_is_the_largest_one():
    for size in ((12, 768, 1024), (24, 1024, 512), (48, 1600, 1024)):
        says = over_micro_batches(*size, 8, 32, 0)["says"]
        b = int(says.removesuffix(".").rpartition(" = ")[2])
        tops = [over_micro_batches(*size, n, 32, 0)["point"][1] for n in (b, b + 1)]
        assert tops[0] <= 80 < tops[1]
    # 5.8 billion weights: 12 bytes each leave room, and the 16 of the optimizer's step do not
    assert over_micro_batches(28, 4096, 128, 1, 32, 1)["says"].endswith("b = 0.")
