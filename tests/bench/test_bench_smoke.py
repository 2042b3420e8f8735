"""Each bench still works, and what it claims to be equal is equal. No time is asserted."""

import importlib.util
import json
from pathlib import Path

import pytest
from processes import python

# Fresh processes import five frameworks one after the other: slow on a busy machine.
pytestmark = [pytest.mark.spread, pytest.mark.slow, pytest.mark.timeout(450)]
HERE = Path(__file__).parent
needs_deepspeed = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`"
)
needs_lightning = pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None, reason="needs the extra `lightning`"
)


def rows_of(bench: str, *flags: str) -> list[dict] | dict:
    """Run a bench in its quick mode and return what it prints as JSON."""
    done = python(HERE / bench, "--quick", "--json", *flags, timeout=420)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@needs_lightning
def test_five_loops_reach_the_same_loss():
    rows = rows_of("bench_text_loop.py")
    assert len(rows) == 11  # and six plain loops with one thing changed
    # Six AdamW steps on equal batches: only the rounding of a sum's order is left.
    assert {row["name"]: row["loss_gap"] for row in rows if row["loss_gap"] > 1e-6} == {}
    # Kernels, precision and threads of the five are the same, so the rest is the loop.
    five = [row for row in rows if not row["name"].startswith("plain, ")]
    told = [[row[key] for key in ("kernels", "precision", "threads")] for row in five]
    assert told == 5 * [told[0]]
    assert {"_fused_adamw_", "_scaled_dot_product_flash_attention_for_cpu"} <= set(told[0][0])
    # Two changes are those of a kernel, and were made.
    kernels = {row["name"]: row["kernels"] for row in rows}
    assert "_fused_adamw_" not in kernels["plain, AdamW not fused"]
    assert "_scaled_dot_product_attention_math" in kernels["plain, attention by torch's math"]
    reads = {row["name"]: row["reads"] for row in rows}
    assert reads["plain, loss.item() every step"] == reads["plain"] + 1
    # And they did learn: the loss is below that of the first step, ln(vocabulary).
    assert all(0 < row["loss"] < row["first_loss"] for row in rows)


def test_every_way_to_start_ranks_answers():
    # The sessions and the script check their own sums and fail where one is wrong.
    seconds = rows_of("bench_ranks.py")
    assert {name: len(took) for name, took in seconds.items()} == {
        "first": 1, "warm": 2, "launch": 2, "torchrun": 1,
    }  # fmt: skip


def test_every_input_path_gives_the_same_pictures():
    rows = rows_of("bench_image_input.py")
    gaps = {row["name"]: row["pixel_gap"] for row in rows}
    assert len(gaps) == 7
    # Normalised pixels stay below 8 in size, where float32 numbers are 4.8e-7 apart; the paths
    # round scale, shift and quotient in another order, each by at most one such step.
    assert {name: gap for name, gap in gaps.items() if gap > 3 * 4.8e-7} == {}
    # Our two paths are one set of pictures, to the bit.
    assert {gap for name, gap in gaps.items() if name.startswith("dtlib")} == {0.0}
    # 512 augmented pictures of each: their spread agrees as far as a draw of crops allows.
    assert all(abs(row["std"] - rows[0]["std"]) < 0.1 for row in rows)


@pytest.mark.slow
@needs_lightning
def test_five_loops_reach_the_same_loss_on_two_ranks():
    rows = rows_of("bench_text_loop.py", "--ranks", "2")
    assert {row["name"]: row["loss_gap"] for row in rows if row["loss_gap"] > 1e-6} == {}


@pytest.mark.slow
def test_four_ways_by_hand_and_ddp_have_the_same_losses():
    rows = rows_of("bench_data_parallel.py")
    assert len(rows) == 9
    # Two summands have one sum, whoever adds them, and halving rounds nothing: the same bits.
    gaps = {row["name"]: row["loss_gap"] for row in rows if row["name"] != "no communication"}
    assert {name: gap for name, gap in gaps.items() if gap > 0} == {}


@pytest.mark.slow
@needs_deepspeed
def test_zero_by_hand_deepspeed_ddp_and_fsdp_have_the_same_losses():
    rows = rows_of("bench_zero.py")
    assert len(rows) == 8
    # Four AdamW steps in fp32: what is left is the rounding of norms, clips and fused updates.
    assert {row["name"]: row["loss_gap"] for row in rows if row["loss_gap"] > 2e-6} == {}


def test_pipelines_that_sleep_keep_what_their_schedules_say():
    rows = rows_of("bench_pipeline.py")
    assert [row["kept"] for row in rows] == [[8] * 4, [4, 3, 2, 1], [11, 9, 7, 5], [4] * 4]
    assert [row["read"] for row in rows] == pytest.approx([3 / 8, 3 / 8, 3 / 16, 1 / 8])


def test_pipelines_by_hand_and_torchs_have_the_same_losses():
    rows = rows_of("bench_pipeline_speed.py")
    assert len(rows) == 8
    # Four AdamW steps in fp32: what is left is the rounding of a mean that is taken in two ways.
    assert {row["name"]: row["loss_gap"] for row in rows if row["loss_gap"] > 2e-6} == {}


def test_tensor_parallelism_by_hand_and_dtensors_have_the_same_losses():
    rows = rows_of("bench_tensor_parallel.py")
    assert len(rows) == 4
    # Four AdamW steps in fp32: what is left is the rounding of sums in another order.
    assert {row["name"]: row["loss_gap"] for row in rows if row["loss_gap"] > 2e-6} == {}
