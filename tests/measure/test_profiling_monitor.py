"""The monitor: psutil for real, NVML by a module that answers as pynvml does."""

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import dtlib
from dtlib.errors import BadInput
from dtlib.measure import profiling
from dtlib.measure.profiling.monitor import FIELDS

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
GPU_FIELDS = FIELDS[1:7]


def two_samples(path: Path, device: torch.device, **settings: Any) -> profiling.Monitor:
    with profiling.Monitor(path, device, seconds=0.01, **settings) as monitor:
        until = time.monotonic() + 20
        while len(monitor.samples) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    return monitor


def test_a_laptop_tells_of_the_process_and_leaves_the_gpu_empty(tmp_path):
    monitor = two_samples(tmp_path / "monitor.rank0.csv", CPU)
    lines = (tmp_path / "monitor.rank0.csv").read_text().splitlines()
    assert lines[0] == ",".join(FIELDS)
    assert all(line.split(",")[1:7] == [""] * 6 for line in lines[1:])
    read = list(profiling.read_samples(monitor.path))
    assert len(read) == len(monitor.samples) >= 2
    first, second = read[:2]
    # torch alone takes more than 50 MB, and the machine has no more than a TB
    assert 50e6 < (first["rss_bytes"] or 0) < 1e12
    assert first["cpu_util"] is None and second["cpu_util"] is not None
    assert monitor.mean("gpu_util") is None and monitor.missing == ""


def test_nothing_runs_on_when_the_block_ends_also_by_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="the run failed"), profiling.Monitor(
        tmp_path / "m.csv", CPU, seconds=3600
    ):  # fmt: skip
        raise RuntimeError("the run failed")
    assert not [thread for thread in threading.enumerate() if thread.name == "dtlib monitor"]
    assert len(list(profiling.read_samples(tmp_path / "m.csv"))) == 1


def test_a_resumed_run_goes_on_in_the_same_file(tmp_path):
    path = tmp_path / "m.csv"
    before = len(two_samples(path, CPU).samples)
    after = len(two_samples(path, CPU, append=True).samples)
    assert len(list(profiling.read_samples(path))) == before + after
    assert path.read_text().count("time") == 1
    path.write_text(path.read_text()[:-9])  # a kill
    more = len(two_samples(path, CPU, append=True).samples)
    assert len(list(profiling.read_samples(path))) == before + after - 1 + more


def test_a_file_that_a_spreadsheet_saved_is_read_and_kept_when_a_run_goes_on(tmp_path):
    path = tmp_path / "m.csv"
    two_samples(path, CPU)
    first = list(profiling.read_samples(path))
    saved = path.read_text().replace(",", ";").replace(".", ",").encode("utf-8-sig")
    path.write_bytes(saved)
    assert list(profiling.read_samples(path)) == first
    after = two_samples(path, CPU, append=True).samples
    assert len(list(profiling.read_samples(path))) == len(after)
    assert (tmp_path / "m.csv.bak").read_bytes() == saved


class NVMLError(Exception):
    pass


def fake_nvml(asked: list[str], power: Any = 312_500) -> SimpleNamespace:
    """Answers as pynvml does: percent, bytes, milliwatts, MHz, °C."""

    def usage(handle: str) -> int:
        if power is None:
            raise NVMLError("Not Supported")
        return power

    def by_uuid(name: str) -> str:
        asked.append(name)
        return "handle"

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: asked.append("init"),
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=75, memory=10),
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=8_000_000_000),
        nvmlDeviceGetPowerUsage=usage,
        nvmlDeviceGetClockInfo=lambda handle, which: {1: 1980, 2: 2619}[which],
        nvmlDeviceGetTemperature=lambda handle, sensor: 54,
    )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch that knows a GPU by its UUID."""
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="1234-ab")
    )


@pytest.mark.usefixtures("cuda")
def test_a_gpu_is_found_by_its_uuid_and_told_in_base_units(tmp_path, monkeypatch):
    asked: list[str] = []
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(asked))
    monitor = two_samples(tmp_path / "m.csv", CUDA)
    assert asked == ["init", "GPU-1234-ab"]
    told = next(profiling.read_samples(monitor.path))
    assert [told[field] for field in GPU_FIELDS] == [0.75, 8e9, 312.5, 1980, 2619, 54]
    assert monitor.mean("gpu_util") == 0.75


@pytest.mark.usefixtures("cuda")
def test_what_a_gpu_does_not_support_is_left_out_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml([], power=None))
    told = two_samples(tmp_path / "m.csv", CUDA).samples[0]
    assert told["power_w"] is None and told["gpu_util"] == 0.75


@pytest.mark.usefixtures("cuda")
def test_a_gpu_without_nvml_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    monitor = two_samples(tmp_path / "m.csv", CUDA)
    assert "pip install 'dtlib[gpu]'" in monitor.missing
    assert monitor.samples[0]["rss_bytes"]


def test_a_cut_line_is_left_out_and_what_is_no_record_is_refused(tmp_path):
    path = two_samples(tmp_path / "m.csv", CPU).path
    whole = path.read_text()
    lines = whole.splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:7])
    assert len(list(profiling.read_samples(path))) == 1
    path.write_text("time,gpu_util\n1,2\n")
    with pytest.raises(BadInput, match="cannot be read as a file of --monitor"):
        list(profiling.read_samples(path))
    with pytest.raises(BadInput, match="cannot be written"):
        profiling.Monitor(tmp_path / "m.csv" / "below.csv", CPU)


def test_every_rank_of_a_run_has_its_file(tmp_path):
    run = dtlib.train(
        "text", steps=3, monitor=True, model="nano", global_batch=8, num_samples=64, ranks=2,
        strategy="ddp", out=str(tmp_path / "run"),
    )  # fmt: skip
    assert sorted(path.name for path in run.folder.glob("monitor.*")) == [
        "monitor.rank0.csv",
        "monitor.rank1.csv",
    ]
    assert list(profiling.read_samples(run.folder / "monitor.rank1.csv"))
    assert "gpu_util" not in run.summary  # nothing has measured it


def test_the_summary_has_the_mean_of_what_the_gpus_were_used(tmp_path, monkeypatch):
    from dtlib.config import RunConfig
    from dtlib.ranks import dist
    from dtlib.training.instruments import Instruments

    class Told(profiling.Monitor):
        def mean(self, field: str) -> float | None:
            return {"gpu_util": 0.75}[field]

    monkeypatch.setattr(profiling, "Monitor", Told)
    instruments = Instruments(RunConfig("text", monitor=True), dist.world(), tmp_path)
    with instruments.around(left=3):
        pass
    assert instruments.columns() == {"gpu_util": 0.75}
