"""Where tests of fetching put what they fetch, and from where."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fetch_server import BODY, Server, serving

from dtlib.data.fetch import download


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder into which everything is fetched, by no rank; it does not exist yet."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path / "data root"))
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(download, "PAUSE", 0.0)
    return tmp_path / "data root"


@pytest.fixture
def server() -> Iterator[Server]:
    """Offers `BODY` in many ways, good and bad."""
    with serving(BODY) as server:
        yield server
