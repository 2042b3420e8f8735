"""The page of a run and of a job: what is there is told, what is not is named."""

import base64
import json
import os

import pytest
from profiling_exports import one_step, raw_csv
from report_reading import read, rows_of

import dtlib
from dtlib.cli import main
from dtlib.errors import BadInput
from dtlib.measure.profiling.metrics import DURATION
from dtlib.measure.profiling.monitor import FIELDS
from dtlib.study.report import figures, page_of, write
from dtlib.study.report.content import Page, Section, spelled

SMALL = {"model": "nano", "global_batch": 8, "num_samples": 64, "ranks": 1, "strategy": "single"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "text-001"
    return dtlib.train("text", steps=7, profile=True, monitor=True, out=str(folder), **SMALL)


def copied(run, folder, *names):
    """Make a folder that holds these files of a run."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text((run.folder / name).read_text())
    return folder


def test_the_page_of_a_run_has_its_figures_tables_and_verdict(run, capsys):
    assert main(["report", str(run.folder)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [
        f"Run text-001: done: 7 steps, loss {run.loss:.6g}.",
        "  missing: figures of a GPU: the monitor recorded none",
        f"Report: {run.folder / 'report.html'}",
    ]
    page = read(run.folder / "report.html")
    words = [image["alt"] or "" for image in page.all("img")]
    losses = [line["loss"] for line in run.history]
    assert words[0].startswith("Loss of each step (loss). this run: 7 points, first")
    assert f"first {losses[0]:.4g}, last {losses[-1]:.4g}" in words[0]
    assert [one.split(" (")[0] for one in words] == [
        "Loss of each step", "Time of each step", "Throughput of each step",
        *(["Processor time of each rank"] if len(words) == 5 else []),
        "Memory of each rank's process",
    ]  # fmt: skip
    assert run.summary["profile"]["verdict"] in page.text
    assert "mean use of the GPUs" in page.text and "not measured" in page.text
    assert "no Slurm job" in page.text and "What is missing" in page.text


def test_a_page_tells_the_newer_settings_and_none_that_nothing_read(run, tmp_path):
    folder = copied(run, tmp_path / "changed", "config.json", "metrics.jsonl", "summary.json")
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pad_vocab_to": 128}))
    write(page_of(folder), tmp_path / "page.html")
    page = read(tmp_path / "page.html")
    assert "pad_vocab_to" in page.text and "activation_checkpointing" in page.text
    assert run.config["chunked_loss"] is False and "chunked_loss" in page.text
    assert "compile_mode" not in page.text and "channels_last" not in page.text


def test_a_run_that_was_killed_is_not_called_done(run, tmp_path):
    folder = copied(run, tmp_path / "killed", "config.json", "metrics.jsonl", "rank0.log")
    (folder / "rank0.log").write_text("started\nthe <last> words\n")
    page = page_of(folder)
    assert page.ended.startswith("not done: there is no summary") and "7 steps" in page.ended
    assert page.missing == [
        "results (summary.json): the run is not done",
        "shares of a step, and a verdict: train with --profile",
        "use, memory, power and clocks of the devices: train with --monitor",
    ]
    read_page = read(write(page, tmp_path / "to" / "page.html"))
    assert "the <last> words" in read_page.text
    # without a summary nobody knows the tokens of a step, but its samples
    assert any("(samples/s)" in (image["alt"] or "") for image in read_page.all("img"))
    (folder / "summary.json").write_text("{}")
    said = "its summary.json has no number of steps or no loss; 7 steps are recorded."
    assert page_of(folder).ended == said
    (folder / "requeue").write_text("stopped after step 7\n")
    assert page_of(folder).ended.startswith("stopped by a signal with a checkpoint")


def test_a_gpu_s_figures_are_drawn_for_every_rank(run, tmp_path):
    folder = copied(run, tmp_path / "gpu", "config.json", "metrics.jsonl", "summary.json")
    for rank in range(2):
        rows = [f"{100 + k},{0.5 + rank / 4},8e9,300,1980,2619,54,1,1e9" for k in range(3)]
        text = "\n".join([",".join(FIELDS), *rows])
        (folder / f"monitor.rank{rank}.csv").write_text(text + "\n")
    page = page_of(folder)
    devices = next(section for section in page.sections if section.heading == "Devices")
    words = {one.caption: one.words for one in devices.figures}
    assert words["Use of each GPU"] == (
        "Use of each GPU (%). rank 0: 3 points, first 50, last 50, smallest 50, median 50, largest"
        " 50; rank 1: 3 points, first 75, last 75, smallest 75, median 75, largest 75."
    )
    assert words["Memory in use on each GPU"].startswith("Memory in use on each GPU (GB (10⁹ byt")
    assert len(devices.figures) == 7 and "2 s" in devices.sentences[0]


def test_what_profilers_left_in_the_folder_is_told(run, tmp_path, capsys):
    folder = copied(run, tmp_path / "profiled", "config.json", "metrics.jsonl", "summary.json")
    one_step(folder / "nsys.rank0.sqlite").done()
    (folder / "nsys.rank1.sqlite").write_text("cut short")
    columns = {DURATION: "us", "dram__bytes_read.sum": "Mbyte", "dram__bytes_write.sum": "byte"}
    raw_csv(folder / "ncu.rank0.csv", columns, [("gemm", ["10", "20", "0"])])
    page = page_of(folder)
    assert rows_of(page, "Nsight Systems")[0][:8] == (
        "0", "4001", "100.000", "50.0 %", "30.0 %", "20.0 %", "10.0 %", "20.0 %"
    )  # fmt: skip
    assert ("step", "1", "100.000", "70.000") in rows_of(page, "Nsight Systems")
    assert rows_of(page, "Nsight Compute") == [("gemm", "1", "10.0", "2,000.00", "", "", "")]
    assert any("nsys.rank1.sqlite cannot be read" in one for one in page.missing)
    read(write(page, tmp_path / "page.html"))
    # the traces of torch.profiler are read by the command, too
    assert main(["profile", "read", str(run.folder / "profile")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == run.summary["profile"]["verdict"]


@pytest.mark.parametrize(("name", "content", "said"), [
    ("monitor.rank1.csv", "time,gpu_util\n1,2\n", "monitor.rank1.csv cannot be read as a file of"),
    ("monitor.rank1.csv", "", "monitor.rank1.csv: there are none yet"),
    ("metrics.jsonl", '{"step": 1, "loss": 2.0}\n', "steps: the records have an unexpected format"),
    ("profile", {"shares": [{"rank": 0}]}, "a step: the records have an unexpected format"),
    ("timed_steps", None, "settings and results: the records have an unexpected format"),
    ("nsys.sqlite", "no database", "nsys.sqlite cannot be read"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_and_the_rest_is_told(name, content, said, run, tmp_path):
    summary = json.loads((run.folder / "summary.json").read_text())
    copied(run, tmp_path, "config.json", "metrics.jsonl", "monitor.rank0.csv")
    if name in summary:
        summary[name] = content
        summary = {key: value for key, value in summary.items() if value is not None}
    else:
        (tmp_path / name).write_text(content)
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    page = page_of(tmp_path)
    assert len([one for one in page.missing if said in one]) == 1
    assert len(page.sections) >= 3 and page.ended.startswith("done: 7 steps")
    read(write(page, tmp_path / "page.html"))


def test_a_loss_that_is_no_number_is_said_and_has_no_place_in_an_order():
    line = [(1, 3.0), (2, float("nan")), (3, 1.0), (4, float("inf"))]
    assert figures.lines("Loss", "step", "loss", {"run": line}).words == (
        "Loss (loss). run: 4 points, first 3, last inf, 2 of them not finite, smallest 1, median 2,"
        " largest 3."
    )
    nothing = figures.words("Loss", "loss", {"run": [(1, float("nan"))]})
    assert nothing == "Loss (loss). run: 1 points, first nan, last nan, 1 of them not finite."


def test_a_folder_that_is_neither_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds neither a run (config.json) nor a job (job.json)" in capsys.readouterr().err
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "exit-code.r0").write_text("0")
    with pytest.raises(BadInput, match="is not named NAME-JOBID"):
        page_of(odd)
    with pytest.raises(BadInput, match="cannot be written"):
        write(Page("a", "b"), odd / "exit-code.r0" / "page.html")
    with pytest.raises(BadInput, match="is a folder: give a file name"):
        write(Page("a", "b"), odd)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="is not a regular file"):
        write(Page("a", "b"), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(BadInput, match="cannot be written"):
        write(Page("a", "b"), tmp_path / ("a" * 300))


def test_markup_in_what_was_recorded_stays_text(tmp_path):
    page = Page("<b>bold</b>", 'a "quoted" & end', [Section("<i>", ["<script>x</script>"])])
    assert "<script>x</script>" in read(write(page, tmp_path / "p.html")).text


def test_many_points_are_thinned_to_the_first_the_last_and_some_between():
    points = [(k, float(k)) for k in range(10_001)]
    thin = figures.thinned(points, 800)
    assert thin[0] == points[0] and thin[-1] == points[-1] and 700 < len(thin) <= 800
    assert figures.thinned(points[:5], 800) == points[:5]
    assert figures.thinned(points[:1], 1) == points[:1]


def test_a_figure_is_the_same_bytes_every_time():
    made = [figures.lines("c", "x", "y", {"a": [(0, 1), (1, 2)]}).image for _ in range(2)]
    assert made[0] == made[1]
    svg = base64.b64decode(made[0].split(",")[1]).decode()
    assert "<text" in svg  # letters stay letters


@pytest.mark.parametrize(("seconds", "text"), [
    (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (7800, "2 h 10 min"),
])  # fmt: skip
def test_durations_are_spelled_for_people(seconds, text):
    assert spelled(seconds) == text
