"""A real JupyterLab and a real browser in it, for tests of what a student meets."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from processes import free_port

CHROMIUM = Path("/usr/bin/chromium")
START = 90.0  # seconds in which the server answers
SETTINGS = {
    # Without this, cells that are out of sight are not in the page.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
WORDS = ["--no-browser", "--allow-root", "--ServerApp.port_retries=0", "--IdentityProvider.token=",
         "--LabApp.news_url=",
         "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]  # fmt: skip

# What marks the cell that one is in has no place in a picture.
BARE = ".jp-cell-toolbar { display: none } .jp-Collapser { visibility: hidden }"

needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, and the folder that it serves."""

    address: str
    folder: Path


@contextlib.contextmanager
def serving(home: Path, notebooks: Mapping[str, str], **env: str) -> Iterator[Lab]:
    """Run a JupyterLab over these notebooks, in a home of its own."""
    folder = home / "notebooks"
    folder.mkdir()
    for name, text in notebooks.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, values in SETTINGS.items():
        path = home / "settings/@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    own = {"HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config")}
    for name in ("settings", "workspaces"):
        own[f"JUPYTERLAB_{name.upper()}_DIR"] = str(home / name)
    port = free_port()
    words = [*WORDS, f"--port={port}", f"--ServerApp.root_dir={folder}"]
    with (home / "lab.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *words],
            env=os.environ | own | env, stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
    try:
        wait_for(f"http://localhost:{port}", server)
        yield Lab(f"http://localhost:{port}", folder)
    finally:
        server.terminate()
        server.wait(20)


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START
    while True:
        try:
            urllib.request.urlopen(f"{address}/api").close()
            return
        except OSError:
            assert time.monotonic() < until and server.poll() is None
            time.sleep(0.25)


@contextlib.contextmanager
def opened(lab: Lab, notebook: str, *, scale: float = 1, width: int = 1400) -> Iterator[Any]:
    """Open a notebook, and wait for its kernel; in the end nothing was asked of other machines."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        page = chromium.new_page(
            viewport={"width": width, "height": 1000}, device_scale_factor=scale
        )
        page.set_default_timeout(60_000)
        outside: list[str] = []
        local = re.compile(r"(https?|wss?)://localhost|blob:|data:")
        page.on("request", lambda r: local.match(r.url) or outside.append(r.url))
        page.goto(f"{lab.address}/lab/tree/{notebook}?reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        # Run before the kernel is idle, and the cells go to a session that is being replaced.
        page.locator("#jp-main-statusbar").get_by_text(re.compile(r"\| Idle")).wait_for()
        page.wait_for_timeout(1500)
        yield page
        chromium.close()
    assert outside == []


def run_all(page: Any) -> None:
    """Ask for all cells to be run; does not wait for them."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def code_cell(page: Any, text: str) -> Any:
    """The first code cell whose code has this text in it now."""
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    codes = cells.locator(".jp-InputArea").all_inner_texts()
    return cells.nth(next(number for number, code in enumerate(codes) if text in code))


def new_cell_below(cell: Any) -> Any:
    """Insert a code cell, as the key B does."""
    page = cell.page
    cell.locator(".cm-content").click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    return page.locator(".jp-Notebook .jp-CodeCell.jp-mod-active")


def paste(cell: Any, code: str) -> None:
    """Replace a cell's code by what comes from the clipboard."""
    editor = cell.locator(".cm-content")
    editor.click()
    editor.press("Control+a")
    editor.evaluate(
        """(editor, code) => {
             const clipboardData = new DataTransfer();
             clipboardData.setData("text/plain", code);
             const paste = { clipboardData, bubbles: true, cancelable: true };
             editor.dispatchEvent(new ClipboardEvent("paste", paste));
           }""",
        code,
    )


def run(cell: Any) -> None:
    """Run one cell, and wait until it has."""
    editor = cell.locator(".cm-content")
    editor.click()
    prompt = cell.locator(".jp-InputPrompt")
    before = prompt.inner_text()
    editor.press("Control+Enter")
    cell.page.wait_for_function(
        """([prompt, before]) => /^\\[\\d+\\]:?$/.test(prompt.innerText.trim())
             && prompt.innerText !== before""",
        arg=[prompt.element_handle(), before],
    )


def picture(first: Any, last: Any, path: Path) -> None:
    """Save a picture of the cells from the first to the last, which fit on the screen."""
    page = first.page
    page.add_style_tag(content=BARE)
    page.evaluate("document.activeElement.blur()")
    first.evaluate("cell => cell.scrollIntoView({block: 'start', behavior: 'instant'})")
    page.wait_for_timeout(300)
    top, bottom = first.bounding_box(), last.bounding_box()
    clip = {"x": top["x"], "y": top["y"], "width": top["width"]}
    page.screenshot(path=path, clip=clip | {"height": bottom["y"] + bottom["height"] - top["y"]})
