"""The page of a job that a real Slurm ran: it waited, started, trained, and ended."""

import re
from html import unescape

import lesson_sources
import pytest
from mini_cluster import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TRAIN = """
import dtlib
small = {"model": "nano", "global_batch": 8, "num_samples": 64}
dtlib.train("text", steps=3, strategy="single", monitor=True, **small)
"""


def test_slurm_s_own_times_are_on_the_page(slurm: Slurm) -> None:
    sources = slurm.folder / "lessons_src"
    lesson_sources.write(sources, "80", TRAIN)
    number = slurm.submit("80", DTLIB_LESSONS=str(sources))
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    said = slurm.dtlib("report", str(slurm.made(number)), "--to", "page.html")
    assert said.splitlines()[0].startswith(f"Job {number}, dtlib-80_"), said
    assert ": COMPLETED, exit code 0:0." in said.splitlines()[0]
    text = unescape(re.sub(r"<[^>]+>", " ", (slurm.folder / "page.html").read_text()))
    # one start, of which Slurm told all three times
    took = r"(?:\d+ min )?\d+ s"
    assert re.search(rf"\s{number}\s+COMPLETED\s+{took}\s+{took}\s+\d{{4}}-", text), text
    assert re.search(r"start 0\s+\d{4}-\d\d-\d\d [\d:]{8}\s+n[12]\s+0, done", text), text
    assert "done: 3 steps, loss " in text and "Memory of each rank's process" in text
