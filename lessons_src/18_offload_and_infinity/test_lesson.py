"""Lesson 18 says what is true: its predictions, its record, its formulas, its streamed step."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dtlib.learn import source
from dtlib.learn.recorded import ABOUT, recorded
from dtlib.sim.traffic import offloaded, on_disk
from tests.prediction_cases import right_options

from . import what_if
from .exercises.moved import bytes_moved
from .exercises.schedule import finish_times
from .exercises.streamed import streamed_step
from .exercises.tokens import fewest_tokens
from .stores import Call, Host, TooWide, median_by_chunk, seconds_by_chunk, train_both

LESSON = source.find("18")
ROOT = Path(__file__).parents[2]
WITHOUT = ROOT / "tests/fixtures/no_deepspeed"
HIDDEN = {**os.environ, "PYTHONPATH": f"{WITHOUT}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize("words", ["the weights", "the optimizer state", "the gradients"])
def test_one_option_of_the_prediction_is_right(words):
    assert right_options("18", "mostly", words) == [words]


def test_the_record_holds_what_the_lesson_shows_and_says_on_what_it_was_measured():
    record = recorded("18_offload")
    assert set(record) == {"runs", "ranks"}
    assert all(record.about[key] for key in ABOUT)
    assert "deepspeed" in record.about["versions"]
    assert not record.about["commit"].endswith("dirty")
    text = (LESSON.room / "records/18_offload.json").read_text()
    assert not any(word in text for word in ("/tmp/", "/work", "/home/", "/root"))


def test_the_recorded_counts_tell_the_lessons_story():
    runs = recorded("18_offload")["runs"]
    each = {
        way: {what: size / run["share"] for what, size in run["moved"].items()}
        for way, run in runs.items()
    }
    assert each["zero3 fp32"] == {}
    assert each["offload fp32"] == {"to_host": 4, "to_device": 4}
    assert each["offload bf16"] == {"to_host": 4, "to_device": 2}
    assert each["offload bf16 x3"] == pytest.approx({"to_host": 10, "to_device": 6}, rel=0.06)
    infinity = runs["infinity fp32"]
    for verb, seen in infinity["kernel"].items():  # a page or two may be somebody else's
        calls = sum(infinity["moved"][f"{verb} {what}"] for what in ("weights", "optimizer"))
        assert calls <= seen <= calls + 8 * 4096


def payload(rows, *names):
    return sum(row["payload"] for row in rows if row["collective"] in names)


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("k", [1, 3])
def test_bytes_moved_are_those_of_the_simulator(ranks, k):
    rows = offloaded(1200, ranks, 2, 2, k)
    found = bytes_moved(1200, ranks, "offload", k)
    assert found == {
        "to_host": payload(rows, "to_host"), "to_device": payload(rows, "to_device"),
        "disk_read": 0, "disk_write": 0,
    }  # fmt: skip
    rows = on_disk(1200, ranks, 2, 12, k)
    weights = next(r["payload"] for r in rows if r["carries"] == "weights")
    assert bytes_moved(1200, ranks, "infinity", k) == {
        "to_host": payload(rows, "to_host"), "to_device": weights,
        "disk_read": payload(rows, "disk_read"), "disk_write": payload(rows, "disk_write"),
    }  # fmt: skip


@pytest.mark.parametrize("way", what_if.WAYS[1:])
def test_the_sliders_move_the_same_bytes(way):
    found, rule = what_if.moved(1200, 4, way), bytes_moved(1200, 4, way, 1)
    assert found["bus"] == rule["to_host"] + rule["to_device"]
    assert found["disk"] == rule["disk_read"] + rule["disk_write"]
    assert what_if.moved(1200, 4, "zero3") == {"bus": 0, "disk": 0}


def test_what_fits_says_where_a_published_model_goes():
    """13 billion parameters, one V100: too large for stage 3, not for offload."""
    told = what_if.what_fits(13, 1, 1, 256, 16, 2, 13)
    assert "zero3 needs 208 GB on the device; offload fits" in told["says"]
    little = what_if.what_fits(13, 1, 1, 128, 16, 2, 13)
    assert "offload needs 182 GB on the host; infinity fits" in little["says"]
    assert told["point"] == [2**13, dict(told["curves"]["offload"])[2**13]]
    assert list(told["curves"]) == list(little["curves"]) == what_if.WAYS


def test_the_sliders_reach_from_where_the_bus_decides_to_where_the_card_does():
    """The lesson's point: tokens matter. The slider's own values, as the page passes them."""
    sliders = LESSON.sidecar["what_if"]["fits"]["inputs"]
    given = {slider["name"]: slider["value"] for slider in sliders}
    (tokens,) = (slider for slider in sliders if slider["name"] == "tokens_power")
    few, many = (
        what_if.what_fits(**given | {"tokens_power": tokens[end]})["point"]
        for end in ("min", "max")
    )
    assert (few[0], many[0]) == (tokens["base"] ** tokens["min"], tokens["base"] ** tokens["max"])
    assert many[1] / few[1] > 20 and many[1] / many[0] < few[1] / few[0] / 5


def test_enough_tokens_give_the_efficiency_and_one_less_does_not():
    for parameters, efficiency in itertools.product((1e9, 13e9), (0.3, 0.5, 0.9)):
        moved, bus, speed = 4.1 * parameters, 16e9, 40e12
        tokens = fewest_tokens(parameters, moved, bus, speed, efficiency)
        step = what_if.seconds(parameters, 1, "zero3", tokens, speed, bus, 1)
        less = step * (tokens - 1) / tokens
        assert less / (less + moved / bus) < efficiency <= step / (step + moved / bus)


@pytest.mark.parametrize(("elements", "window"), [(1000, 64), (1000, 1000), (257, 1)])
def test_a_streamed_step_is_adamw_to_the_bit_wherever_the_state_lies(tmp_path, elements, window):
    twin, hosts = train_both(streamed_step, elements, window, tmp_path, 3)
    for host in hosts.values():
        assert torch.equal(host.state["master"], twin)
        assert host.moved("read") == host.moved("write") == 3 * 12 * elements
    on_disk = torch.from_file(str(tmp_path / "master.bin"), size=elements)
    assert torch.equal(on_disk, twin)


def test_a_window_holds_no_more_and_is_used_again():
    host = Host(torch.arange(4.0), window=2)
    first = host.read("master", 0, 2)
    host.read("master", 2, 4)
    assert first.tolist() == [2, 3]
    with pytest.raises(TooWide, match="3 elements of master; the window holds 2"):
        host.read("master", 0, 3)


def test_seconds_are_split_by_chunk():
    calls = [
        Call("read", "master", 0, 4, 0.0, 1.0), Call("read", "first", 0, 4, 1.5, 2.0),
        Call("write", "master", 0, 4, 5.0, 7.0), Call("read", "master", 4, 6, 7.0, 8.0),
        Call("write", "master", 4, 6, 9.0, 9.5),
    ]  # fmt: skip
    assert seconds_by_chunk(calls) == ([1.5, 1.0], [3.5, 1.0], [2.0, 0.5])
    later = [call._replace(begin=3 * call.begin, end=3 * call.end) for call in calls]
    hiccup = [call._replace(begin=90 * call.begin, end=90 * call.end) for call in calls]
    assert median_by_chunk([*hiccup, *calls, *later], 3) == [[4.5, 3.0], [10.5, 3.0], [6.0, 1.5]]


def test_one_window_is_serial_and_enough_windows_are_a_pipeline():
    assert finish_times([2, 2], [1, 1], [3, 3], 1) == [(2, 3, 6), (8, 9, 12)]  # the lesson's case
    assert finish_times([2, 2], [1, 1], [3, 3], 2) == [(2, 3, 6), (4, 5, 9)]
    read, update, write = [2, 3, 1, 4], [3, 2, 5, 1], [4, 1, 3, 2]
    assert finish_times(read, update, write, 1)[-1][2] == sum(read + update + write)
    best = finish_times(read, update, write, 4)
    paths = (  # the longest way through the grid of parts and chunks
        sum(read[: i + 1]) + sum(update[i : k + 1]) + sum(write[k:])
        for i in range(4)
        for k in range(i, 4)
    )
    assert best[-1][2] == max(paths)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_without_deepspeed_the_lesson_shows_the_record_and_reaches_its_end(tmp_path):
    command = [sys.executable, "-m", "dtlib", "lessons", "run", "18", "--kind", "student"]
    subprocess.run([*command, "--out", tmp_path], env=HIDDEN, check=True, cwd=ROOT, timeout=380)
    notebook = json.loads((tmp_path / "student" / f"{LESSON.stem}.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    everything = json.dumps(outputs)
    assert "DeepSpeed is not installed" in everything and "Recorded results." in everything
    plain = "".join("".join(o.get("data", {}).get("text/plain", "")) for o in outputs)
    assert plain.count("is not written yet") == 4
