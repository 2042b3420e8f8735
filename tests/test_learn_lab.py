"""A student's first minutes in a real JupyterLab, in a real browser."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtlib.learn.source import find
from dtlib.lessons.build import derive

FIXTURES = Path(__file__).parent / "fixtures"
CHROMIUM = Path("/usr/bin/chromium")
SETTINGS = {
    # Without this, cells that are out of sight are not in the page.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab over the demo lesson's student notebook: its address and its folder."""
    home = tmp_path_factory.mktemp("lab")
    folder = home / "notebooks"
    folder.mkdir()
    lesson = find("90", FIXTURES / "lessons_src")
    (folder / "90_demo.ipynb").write_text(derive(lesson, "student"), encoding="utf-8")
    for name, values in SETTINGS.items():
        path = home / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    port = free_port()
    env = os.environ | {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "DTLIB_LESSONS": str(FIXTURES / "lessons_src"),
        "PYTHONPATH": str(FIXTURES),
    }
    words = [
        "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}",
        "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *words],
            env=env,
            stdout=log,
            stderr=log,
            cwd=folder,
        )
    try:
        address = f"http://localhost:{port}"
        wait_for(lambda: urllib.request.urlopen(f"{address}/api"), server)
        yield address, folder
    finally:
        server.terminate()
        server.wait(20)


def wait_for(works: Any, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 90
    while True:
        try:
            works()
            return
        except OSError:
            assert time.monotonic() < until and server.poll() is None
            time.sleep(0.25)


@pytest.fixture
def page(lab: tuple[str, Path]) -> Iterator[Any]:
    """The notebook, all of its cells run."""
    from playwright.sync_api import sync_playwright

    address, _ = lab
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = chromium.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(60_000)
        outside: list[str] = []
        local = re.compile(r"(https?|wss?)://localhost|blob:|data:")
        page.on("request", lambda r: local.match(r.url) or outside.append(r.url))
        page.goto(f"{address}/lab/tree/90_demo.ipynb?reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        # Run before the kernel is idle, and the cells go to a session that is being replaced.
        page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle")).wait_for()
        page.wait_for_timeout(1500)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.get_by_text("Take-away.").wait_for()
        yield page
        chromium.close()
    assert outside == []


def test_predict_answer_and_move_by_keyboard(page: Any, lab: tuple[str, Path]) -> None:
    progress = lab[1] / ".dtlib/progress.json"
    cells = page.locator(".jp-Notebook > * .jp-Cell, .jp-Notebook .jp-Cell").count()

    page.get_by_label("Your number:").focus()
    page.keyboard.type("6")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # sure
    page.keyboard.press("ArrowDown")  # JupyterLab would move to the next cell
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Committed: 6 apples (unsure).").wait_for()

    page.get_by_role("group", name="What is 3 + 3?").get_by_label("6", exact=True).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("3 twice.").wait_for()

    page.get_by_label("Slope").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("At 4 it is 20.").wait_for()

    assert page.locator(".jp-Notebook > * .jp-Cell, .jp-Notebook .jp-Cell").count() == cells
    until = time.monotonic() + 20
    while time.monotonic() < until:
        kept = json.loads(progress.read_text())["90_demo"]
        if "quiz" in kept and "predictions" in kept:
            break
        time.sleep(0.2)
    assert kept["predictions"]["result"]["value"] == 6
    assert kept["predictions"]["result"]["sure"] is False
    assert kept["quiz"]["sum"] == {"tries": 1, "right": True}


def test_a_prediction_survives_the_kernel(page: Any) -> None:
    # The page was opened anew and all cells ran in a fresh session or the kept one.
    page.get_by_text("Committed: 6 apples (unsure).").wait_for()
    assert page.get_by_role("button", name="Commit").is_disabled()
    assert page.get_by_text("you predicted (unsure)").count() == 1
