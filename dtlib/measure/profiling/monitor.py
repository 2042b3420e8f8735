"""Sample a rank's device and process while it works: one line per second in a CSV file.

NVML (package nvidia-ml-py, which is imported as pynvml) reports an NVIDIA GPU, and psutil the
process. What a machine does not report stays empty.

https://docs.nvidia.com/deploy/nvml-api/ ; https://psutil.readthedocs.io/
"""

from __future__ import annotations

import csv
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dtlib.config.files import back_up
from dtlib.config.sheets import read_sheet
from dtlib.errors import BadInput, in_words

if TYPE_CHECKING:
    import torch

# time is in seconds since 1970; gpu_util is a share, 0 to 1; cpu_util too, where 1 is one core;
# clocks are in MHz, the temperature is in °C
FIELDS = (
    "time", "gpu_util", "gpu_memory_bytes", "power_w", "sm_clock_mhz", "memory_clock_mhz",
    "temperature_c", "cpu_util", "rss_bytes",
)  # fmt: skip
MISSING = (
    "No GPU figures: NVML is not available ({why}); `pip install 'dtlib[gpu]'` installs"
    " nvidia-ml-py, and the NVIDIA driver contains the library."
)
_HEAD = ",".join(FIELDS).encode()
Sample = dict[str, float | None]


class Monitor:
    """Samples until its block ends, however it ends; each line is written to disk at once.

    Parameters
    ----------
    path
        The CSV file, whose columns are `FIELDS`.
    device
        This rank's device; unless it is an NVIDIA GPU, the GPU's columns stay empty.
    seconds
        Time between two samples. NVML and psutil need about a millisecond for one.
    append
        Append to an existing file, as a resumed run does.

    Attributes
    ----------
    missing
        A sentence, if there is a GPU that NVML cannot report; otherwise empty.

    Raises
    ------
    BadInput
        when the file cannot be written.
    """

    def __init__(
        self, path: Path, device: torch.device, *, seconds: float = 1.0, append: bool = False
    ) -> None:
        self.path, self._seconds = path, seconds
        self.missing = ""
        self.samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dtlib monitor", daemon=True)
        self._gpu: Gpu | None = None
        if device.type == "cuda":
            try:
                self._gpu = Gpu(device)
            except Exception as error:  # no package, no library, no driver, no such device: no GPU
                self.missing = MISSING.format(why=str(error) or type(error).__name__)
        self._process = _process()
        self._file = _opened(path, append)

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        writer = csv.DictWriter(self._file, FIELDS)
        if self._file.tell() == 0:
            writer.writeheader()
        while True:
            sample: Sample = {"time": time.time(), **self._look()}
            self.samples.append(sample)
            writer.writerow(sample)
            self._file.flush()
            if self._ended.wait(self._seconds):
                return

    def _look(self) -> Sample:
        return {**(self._gpu.look() if self._gpu else {}), **self._process()}

    def mean(self, field: str) -> float | None:
        """Return the mean of a column over the samples that have it, or None."""
        known = [sample[field] for sample in self.samples if sample.get(field) is not None]
        return statistics.fmean(value for value in known if value is not None) if known else None


class Gpu:
    """One NVIDIA GPU, asked through NVML."""

    def __init__(self, device: torch.device) -> None:
        import pynvml
        import torch

        self._nvml: Any = pynvml
        pynvml.nvmlInit()
        # By its UUID, since CUDA_VISIBLE_DEVICES renumbers GPUs for a process
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(name)

    def look(self) -> Sample:
        """Return what the GPU reports now; what it does not support is None."""
        nvml, handle = self._nvml, self._handle
        asked: dict[str, Callable[[], float]] = {
            "gpu_util": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "gpu_memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(
                handle, nvml.NVML_TEMPERATURE_GPU
            ),
        }
        return {field: self._or_none(ask) for field, ask in asked.items()}

    def _or_none(self, ask: Callable[[], float]) -> float | None:
        try:
            return ask()
        except self._nvml.NVMLError:  # for instance, a slice of a GPU has no power of its own
            return None


def _process() -> Callable[[], Sample]:
    import psutil

    process = psutil.Process()
    begun = False

    def look() -> Sample:
        nonlocal begun
        used = process.cpu_percent() / 100
        # the first call only sets the point from which the next one counts
        told, begun = (used if begun else None), True
        return {"cpu_util": told, "rss_bytes": process.memory_info().rss}

    return look


def _opened(path: Path, append: bool) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes()[: len(_HEAD)] if append and path.exists() else b""
        if not _HEAD.startswith(before):
            print(f"{path} was changed since dtlib wrote it; it is kept as {back_up(path).name}.")
            append = False
        if append and path.exists():  # a line that a kill cut short is removed first
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        return path.open("a" if append else "w", newline="", encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({in_words(error)}).") from None


def read_samples(path: Path) -> Iterator[Sample]:
    """Read a file that a `Monitor` wrote; a last line that a kill cut short is left out.

    Raises `BadInput` if it is not such a file.
    """
    try:
        sheet = read_sheet(path, FIELDS, FIELDS)
        torn = not path.read_bytes().endswith((b"\n", b"\n\0"))
        for row in sheet.dicts()[: -1 if torn else None]:
            yield {name: float(row[name]) if row[name] else None for name in FIELDS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path} cannot be read as a file of --monitor ({in_words(error)})."
        ) from None
