"""`dtlib bench`: what it counts and refuses; what it measures is in no test, since a test asserts
no time."""

import json

import pytest

from dtlib.cli import main
from dtlib.cli.bench import size_in_bytes
from dtlib.errors import BadInput
from dtlib.measure import disk, links


def test_links_between_two_ranks(capsys):
    assert main(["bench", "links", "--ranks", "2", "--largest", "4KiB", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ranks"] == 2
    assert [row["size"] for row in told["sizes"]] == [1024, 4096]
    for row in told["sizes"]:
        # of two ranks each sends 2 · 1/2 of the tensor
        assert row["busbw"] == row["algbw"] == row["size"] / row["seconds"]
        low, high = row["spread"]
        assert links.LEAST <= row["repeats"] <= links.MOST and low <= row["seconds"] <= high
    assert told["latency_s"] == told["sizes"][0]["seconds"] / 2
    assert told["bandwidth"] == told["sizes"][1]["busbw"]


@pytest.mark.parametrize(
    ("collective", "ranks", "messages"),
    [("all_reduce", 4, 6), ("all_gather", 4, 3), ("reduce_scatter", 2, 1)],
)
def test_latency_comes_from_the_smallest_size(collective, ranks, messages):
    rows = [{"size": 8, "seconds": 6.0, "busbw": 1.0}, {"size": 9, "seconds": 7.0, "busbw": 2.0}]
    assert links.latency_and_bandwidth(rows, collective, ranks) == (6.0 / messages, 2.0)


def test_the_table_names_the_share_of_the_data_sheet(capsys):
    words = "bench links --ranks 2 --largest 1KiB --collective all_gather --sheet 1e-9"
    assert main(words.split()) == 0
    out = capsys.readouterr().out
    assert out.startswith("all_gather on 2 ranks")
    assert "of the data sheet's 1e-09 GB/s" in out


def test_a_disk_is_measured_and_left_as_it_was(tmp_path, capsys):
    (tmp_path / "mine").write_text("here")
    words = ["bench", "disk", str(tmp_path), "--size", "2MiB", "--files", "3", "--json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)
    names = ["write one file", "read one file", "write 3 files", "read 3 files"]
    assert [row["what"] for row in rows] == (names if disk.FORGETS else names[::2])
    assert {row["bytes"] for row in rows if row["files"] == 3} == {2**21 // 3 * 3}
    assert all(row["files_per_s"] * row["seconds"] == pytest.approx(row["files"]) for row in rows)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_is_written_is_as_long_as_it_says(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    disk._write(paths, disk.CHUNK + 5)
    assert [path.stat().st_size for path in paths] == [disk.CHUNK + 5] * 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("links --ranks 1", "one rank has no link"),
        ("links --largest 3XB", "'3XB' is no size"),
        ("links --largest 900000GiB", "more than this machine's memory"),
        ("links --sheet -2", "--sheet -2 must be above 0"),
        ("disk /nowhere/at/all", "/nowhere/at/all is no folder"),
        ("disk . --size 0", "use at least one byte"),
        ("disk . --size 1KiB --files 2000", "1024 bytes in 2000 files"),
        ("disk . --size 1000000GB", "use a smaller --size"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words.split()]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_sizes_are_read_with_both_kinds_of_units():
    assert [size_in_bytes(text) for text in ("64MiB", "1.5GB", "7")] == [2**26, 1_500_000_000, 7]
    with pytest.raises(BadInput):
        size_in_bytes("MiB")
