"""Log a run's numbers to TensorBoard and Weights & Biases, on request; rank 0 writes them.

`metrics.jsonl` and `evaluations.jsonl` remain the record; the loggers show the same numbers, named
`train/loss`, `evaluation/loss` and so on, at the same steps, even after a resume.
"""

from __future__ import annotations

import contextlib
import importlib.util
import netrc
import os
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from dtlib.errors import DtlibError, Unavailable
from dtlib.training.record.lines import read_lines

PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}
WANDB_SERVER = "https://api.wandb.ai"
REACH = 10.0  # seconds in which the server must answer before any rank starts
START = 30.0  # seconds that W&B may take to accept the run while the other ranks wait
END = 60.0  # seconds for uploading the rest; it stays in the run's folder, so nothing is lost


class Logger(Protocol):
    """Where numbers go in addition to the JSON lines."""

    def add(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


def check_loggers(tensorboard: bool, wandb: str | None, *, writes: bool = True) -> None:
    """Refuse loggers that can't work here, before any rank starts.

    Parameters
    ----------
    tensorboard, wandb
        The settings of those names.
    writes
        Whether this process may become the writer: only the writer checks the network.

    Raises
    ------
    Unavailable
        When a package is missing, or online W&B has no API key or no network.
    """
    for name, wanted in (("tensorboard", tensorboard), ("wandb", wandb)):
        if wanted and not _installed(PACKAGES[name]):
            raise Unavailable(
                f"{name} needs the package {PACKAGES[name]}, which is not installed: in the "
                "project's folder, run pip install -e '.[logging]' -c constraints.txt."
            )
    if wandb == "online" and writes:
        _refuse_without_key_or_network(os.environ.get("WANDB_BASE_URL") or WANDB_SERVER)


def _installed(package: str) -> bool:
    # A folder of that name in the working directory is found too, but it has no origin.
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


def _refuse_without_key_or_network(server: str) -> None:
    instead = "or use wandb offline and upload the run later with `wandb sync`."
    if not _has_key(server):
        raise Unavailable(
            f"wandb online needs an API key for {server}, and there is none: set WANDB_API_KEY, "
            f"run `wandb login`, {instead}"
        )
    try:
        urllib.request.urlopen(server, timeout=REACH).close()
    except urllib.error.HTTPError:
        return  # it answered
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(
            f"wandb online did not reach {server} within {REACH:g} s ({reason}): check the "
            f"network or the proxy, {instead}"
        ) from None


def _has_key(server: str) -> bool:
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    host = urllib.parse.urlsplit(server).hostname or ""
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def loggers_for(folder: Path, config: Mapping[str, Any], resumed_from: int | None) -> list[Logger]:
    """Open the loggers that `config` asks for; they keep an earlier start's steps up to
    `resumed_from` and drop later ones."""
    loggers: list[Logger] = []
    if config.get("tensorboard"):
        loggers.append(TensorBoard(folder / "tensorboard", resumed_from))
    if config.get("wandb"):
        loggers.append(WeightsAndBiases(folder, config))
    return loggers


def numbers_of(kind: str, line: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a JSON line as `kind/name`; text and empty values are left out."""
    found = {}
    for name, value in line.items():
        if name != "step" and (isinstance(value, int | float) or hasattr(value, "item")):
            found[f"{kind}/{name}"] = float(value)
    return found


class TensorBoard:
    """Event files in the run's folder, for `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path, resumed_from: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Readers drop what an earlier start wrote from this step on, because it was undone.
        self._writer = SummaryWriter(str(folder), purge_step=(resumed_from or 0) + 1)

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)
        self._writer.flush()  # a rank killed between two steps loses none

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A W&B run with its files in `wandb/` in the run's folder; offline, it uses no network.

    W&B's own system metrics, console log and code copies are off: the record says where the run
    was measured. W&B can't undo a step, so a resumed run is written again from the JSON lines that
    were kept, under its old id; online, the server skips the steps that it already has.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        home = folder / "wandb"
        self._cache = home / "cache"
        self._cache.mkdir(parents=True, exist_ok=True)
        for stale in home.glob("offline-run-*"):
            shutil.rmtree(stale)
        self._wandb = wandb = _import_wandb(self._cache)
        try:
            with _environment(self._cache):
                self._run = wandb.init(**self._settings(folder, config))
        except wandb.Error as error:
            wandb.teardown()
            raise DtlibError(
                f"W&B did not accept the run ({' '.join(str(error).split())}): check "
                "`wandb login`, or use wandb offline."
            ) from error
        for step, numbers in _kept(folder):
            self.add(step, numbers)

    def _settings(self, folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
        settings = self._wandb.Settings(
            silent=True, console="off", symlink=False, init_timeout=START, finish_timeout=END,
            x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
            disable_git=True, disable_code=True, save_code=False, x_save_requirements=False,
            x_transaction_log_flush_interval=1.0,  # seconds that a killed rank may lose
        )  # fmt: skip
        online = config["wandb"] == "online"
        return {
            "project": os.environ.get("WANDB_PROJECT") or "dtlib",
            "name": os.environ.get("WANDB_NAME") or folder.resolve().name,
            "id": _run_id(folder / "wandb" / "id"), "resume": "allow" if online else None,
            "mode": config["wandb"], "dir": str(folder), "config": dict(config),
            "settings": settings,
        }  # fmt: skip

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()
        self._wandb.teardown()  # ends W&B's own process
        shutil.rmtree(self._cache)


def _kept(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Return what the record already holds, in the order in which it was written."""
    rows = []
    for order, kind in enumerate(("train", "evaluation")):
        name = "metrics" if kind == "train" else "evaluations"
        for line in read_lines(folder / f"{name}.jsonl"):
            rows.append((line["step"], order, numbers_of(kind, line)))
    return [(step, numbers) for step, _, numbers in sorted(rows, key=lambda row: row[:2])]


def _run_id(path: Path) -> str:
    """Return the run's id for W&B, which is the same in every start."""
    if not path.exists():
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text()


def _import_wandb(cache: Path) -> Any:
    """Import W&B so that the temporary folders it creates and leaves behind are in `cache`."""
    usual, tempfile.tempdir = tempfile.tempdir, str(cache.resolve())
    try:
        import wandb
    finally:
        tempfile.tempdir = usual
    return wandb


@contextlib.contextmanager
def _environment(cache: Path) -> Iterator[None]:
    """Set W&B's variables while it starts, unless the user has set them: otherwise, it writes to
    the home folder and reports its errors to its developers."""
    ours = {"WANDB_CACHE_DIR": str(cache.resolve()), "WANDB_ERROR_REPORTING": "false"}
    ours = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
