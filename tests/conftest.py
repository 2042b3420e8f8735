"""What tests share: real data where it is at hand, a small archive, a cache of their own."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROJECT = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Hear an interrupt again where tests run in the background.

    `nohup` and a script's `&` start what follows with these signals ignored, which is inherited by
    all that is started from there: tests of interrupts would wait for ever.
    """
    for name, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(name) is signal.SIG_IGN:
            signal.signal(name, usual)
    if wanted := os.environ.get("LESSON", ""):
        _refuse_unless_there(wanted)


def _refuse_unless_there(number: str) -> None:
    """End with a sentence where LESSON names no lesson, in place of a run without tests."""
    from dtlib.errors import BadInput
    from dtlib.learn.source import find

    try:
        there = find(number).number
    except BadInput as error:
        raise pytest.UsageError(f"LESSON={number}: {error}") from None
    if there != number:
        raise pytest.UsageError(f"LESSON={number} is written LESSON={there}.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what belongs to another lesson than LESSON, and what the start does not decide."""
    if os.environ.get("DTLIB_START") == "spawn":
        items[:] = [item for item in items if not item.get_closest_marker("any_start")]
    if wanted := os.environ.get("LESSON", ""):
        items[:] = [item for item in items if wanted in _lessons_of(item)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file on one process, where several share the work."""
    from scheduling import ByFile

    return ByFile(config, log)


def _lessons_of(item: pytest.Item) -> set[str]:
    """The numbers of the lessons that a test is about: by its room, or by what it is given."""
    room = item.path.relative_to(PROJECT).parts[:2]
    found = {room[1][:2]} if room[0] == "lessons_src" else set()
    given = getattr(item, "callspec", None)
    for value in given.params.values() if given else ():
        lesson = getattr(value, "lesson", value)  # a bank and the like know theirs
        found.add(lesson if isinstance(lesson, str) else getattr(lesson, "number", ""))
    return found


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep every test, and what it starts, out of the user's home."""
    os.environ["DTLIB_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets: `DTLIB_DATA`, else `../shared/data` seen from the project."""
    folder = Path(os.environ.get("DTLIB_DATA", PROJECT.parent / "shared" / "data")).resolve()
    if not (folder / "wikitext-2").is_dir():
        pytest.skip(f"no real data in {folder}: set DTLIB_DATA to the folder that holds it")
    return folder


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder that is empty at first."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a folder with a little text."""
    from tests.toy import write_story

    return write_story(tmp_path_factory.mktemp("text") / "story")


def write_cifar(folder: Path, train: int = 100, test: int = 40) -> Path:
    """Write procedural pictures as CIFAR-10's binary archive and return the folder above it."""
    from dtlib.data import pictures

    inner = folder / "cifar-10-batches-bin"
    inner.mkdir(parents=True)
    for split, count, names in (
        ("train", train, [f"data_batch_{k}.bin" for k in range(1, 6)]),
        ("test", test, ["test_batch.bin"]),
    ):
        data = pictures.load(split, count)
        labels = data.labels.numpy().astype(np.uint8)[:, None]
        records = np.concatenate([labels, data.pixels.numpy().reshape(count, -1)], axis=1)
        for name, part in zip(names, np.array_split(records, len(names)), strict=True):
            part.tofile(inner / name)
    return folder


@pytest.fixture
def cifar_binary(tmp_path: Path) -> Path:
    """The folder above a small `cifar-10-batches-bin`: 100 training and 40 test pictures."""
    return write_cifar(tmp_path / "archive")
