"""The numbers of a run in TensorBoard and in Weights & Biases, when asked for; rank 0 writes them.

`metrics.jsonl` and `evaluations.jsonl` stay the record; the loggers show the same numbers, named
`train/loss`, `evaluation/loss` and so on, at the same steps, also after a resume.
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
START = 30.0  # seconds that W&B may take to take the run; the other ranks wait meanwhile
END = 60.0  # seconds that sending the rest may take; it stays in the run's folder, so none is lost


class Logger(Protocol):
    """Where numbers go beside the JSON lines."""

    def add(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


def check_loggers(tensorboard: bool, wandb: str | None, *, writes: bool = True) -> None:
    """Refuse what cannot be logged here, before any rank starts.

    Parameters
    ----------
    tensorboard, wandb
        The settings of those names.
    writes
        Whether this process may become the one that writes: only that one asks the network.

    Raises
    ------
    Unavailable
        When a package is missing, or W&B online has no API key or no network.
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
    # A folder of that name in the working folder is found too, but has no file of its own.
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
    """Open the loggers that `config` asks for; of an earlier start they keep the steps up to
    `resumed_from` and no later ones."""
    loggers: list[Logger] = []
    if config.get("tensorboard"):
        loggers.append(TensorBoard(folder / "tensorboard", resumed_from))
    if config.get("wandb"):
        loggers.append(WeightsAndBiases(folder, config))
    return loggers


def numbers_of(kind: str, line: Mapping[str, Any]) -> dict[str, float]:
    """Return what of a JSON line can be drawn, as `kind/name`; words and empty values cannot."""
    found = {}
    for name, value in line.items():
        if name != "step" and (isinstance(value, int | float) or hasattr(value, "item")):
            found[f"{kind}/{name}"] = float(value)
    return found


class TensorBoard:
    """Event files in the run's folder, for `tensorboard --logdir FOLDER`."""

    def __init__(self, folder: Path, resumed_from: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Readers forget what an earlier start wrote from this step on: it did not count.
        self._writer = SummaryWriter(str(folder), purge_step=(resumed_from or 0) + 1)

    def add(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)
        self._writer.flush()  # a rank that is killed between two steps loses none

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A W&B run whose files lie in `wandb/` of the run's folder; offline it asks no network.

    Its own system metrics, console log and copies of code are left out: the record has what it was
    measured on. W&B cannot take back a step, so a resumed run is written anew from the JSON lines
    that count, under its old id; online, the server leaves out the steps that it has.
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
    """What the record holds already, in the order in which it was written."""
    rows = []
    for order, kind in enumerate(("train", "evaluation")):
        name = "metrics" if kind == "train" else "evaluations"
        for line in read_lines(folder / f"{name}.jsonl"):
            rows.append((line["step"], order, numbers_of(kind, line)))
    return [(step, numbers) for step, _, numbers in sorted(rows, key=lambda row: row[:2])]


def _run_id(path: Path) -> str:
    """The id under which W&B knows the run, the same in every start."""
    if not path.exists():
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text()


def _import_wandb(cache: Path) -> Any:
    """Import it so that the temporary folders that it makes at once, and leaves, lie in `cache`."""
    usual, tempfile.tempdir = tempfile.tempdir, str(cache.resolve())
    try:
        import wandb
    finally:
        tempfile.tempdir = usual
    return wandb


@contextlib.contextmanager
def _environment(cache: Path) -> Iterator[None]:
    """W&B's variables while it starts, unless the user set them: it otherwise writes to the home
    folder, and reports its errors to its makers."""
    ours = {"WANDB_CACHE_DIR": str(cache.resolve()), "WANDB_ERROR_REPORTING": "false"}
    ours = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
