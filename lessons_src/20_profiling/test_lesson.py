"""What lesson 20 says is true: its predictions, the benchmark to fix, the export that it makes."""

import re

import pytest

from dtlib.learn import predictions, source

from .exercises import clock, nsight
from .made_export import made_export, spans_of

LESSON = source.find("20")


def test_the_patient_reports_1_ms_for_a_call_that_takes_21() -> None:
    (cell,) = [cell.text for cell in LESSON.cells if "reports 1 ms" in cell.text]
    (code,) = re.findall(r"```\n(.*?)```", cell, re.DOTALL)
    names: dict = {}
    exec(code, names)
    device = clock.Device()
    got = names["median_seconds"](device.launch, device.synchronize, device.clock, 5)
    assert got == pytest.approx(clock.LAUNCH) == 0.001
    assert pytest.approx(0.021) == clock.LAUNCH + clock.WORK
    for words in ("20 ms, the first for 500", "for a call that takes 21"):
        assert words in LESSON.text.replace("\n# ", " ")


@pytest.mark.parametrize(
    "words", ["rank 0, which has nothing slow about it", "rank 1, which is slow"]
)
def test_what_is_measured_is_an_option(words: str) -> None:
    spec = LESSON.sidecar["predictions"]["who_looks_busy"]
    assert [o["text"] for o in spec["options"] if predictions.verdict(spec, o["text"], words)] == [
        words
    ]
    assert f'"{words}"' in LESSON.text


def test_a_made_export_is_read_as_it_was_made() -> None:
    _, rows = nsight.CASES[4]
    found = spans_of(made_export(rows))
    in_ns = {
        kind: [(round(b * 1e9), round(e * 1e9)) for b, e in spans] for kind, spans in found.items()
    }
    assert in_ns == {
        "compute": [(10, 60), (160, 200)], "nccl": [(50, 100)], "copy": [(0, 20), (120, 130)],
    }  # fmt: skip
    # on paper: of 200 ns compute 90, nccl 50, copies 30; 100–120 and 130–160 nothing
    assert nsight.gpu_shares(made_export(rows)) == pytest.approx(
        {"compute": 0.45, "nccl": 0.25, "copy": 0.15, "idle": 0.25}
    )


def test_the_export_of_the_lesson_has_its_shares() -> None:
    rows = [
        (
            int(stream),
            name.strip('"') if name.startswith('"') else nsight.NCCL,
            int(start),
            int(end),
        )
        for stream, name, start, end in re.findall(
            r"^    \((\d+), (nccl|\".*?\"), (\d+), (\d+)\),$", LESSON.text, re.MULTILINE
        )
    ]
    assert len(rows) == 4
    shares = nsight.gpu_shares(made_export(rows))
    assert shares == pytest.approx({"compute": 0.55, "nccl": 0.4, "copy": 0.05, "idle": 0.15})
