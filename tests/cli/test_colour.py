"""Colour for ok, note and missing: on a terminal, and nowhere else."""

from __future__ import annotations

import io

import pytest

from dtlib.cluster.doctor import Finding, report


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("file", "env", "coloured"),
    [
        (Terminal, {}, True),
        (Terminal, {"NO_COLOR": "1"}, False),
        (Terminal, {"TERM": "dumb"}, False),
        (Terminal, {"JPY_PARENT_PID": "7"}, False),  # `!dtlib doctor` in a notebook
        (io.StringIO, {}, False),
    ],
)
def test_colour_is_for_people_at_a_terminal(file, env, coloured, monkeypatch):
    for name in ("NO_COLOR", "TERM", "JPY_PARENT_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    out = file()
    report([Finding("gpu", "note", "none", ""), Finding("ports", "missing", "no", "")], file=out)
    assert ("\x1b[33mnote" in out.getvalue() and "\x1b[31mmissing" in out.getvalue()) is coloured
    assert ("\x1b" in out.getvalue()) is coloured
