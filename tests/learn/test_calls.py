"""An answer is called, timed and read as a number, whatever it does."""

import math
import signal
import threading

import numpy
import pytest
import torch

from dtlib.learn import calls
from dtlib.learn.verdicts import Wrong


def swallows():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


def doubles():
    numbers = [0.0] * 1024
    while True:
        numbers += numbers


def test_an_answer_that_would_fill_the_machine_is_stopped(monkeypatch):
    monkeypatch.setattr(calls, "MOST", 2**27)
    monkeypatch.setattr(calls, "LIMIT", 60.0)
    with pytest.raises(Wrong) as found:
        calls.ask(doubles, case="a case")
    assert found.value.mistake == "too_large"
    assert "of doubles" in found.value.numbers["place"]


def test_an_endless_answer_is_stopped_and_the_signal_is_as_before(monkeypatch):
    monkeypatch.setattr(calls, "LIMIT", 0.05)
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(Wrong) as found:
        calls.ask(swallows, case="a case")
    assert found.value.mistake == "loops"
    assert "swallows" in found.value.numbers["place"]
    assert signal.getsignal(signal.SIGVTALRM) is before
    assert calls.ask(lambda: 3, case="") == 3


def test_an_exception_becomes_a_verdict():
    with pytest.raises(Wrong) as found:
        calls.ask(lambda x: 1 / x, 0, case="x = 0")
    assert (found.value.mistake, found.value.case) == ("raised", "x = 0")
    with pytest.raises(Wrong) as found:
        calls.ask(exit, case="")
    assert (found.value.mistake, found.value.numbers["error"]) == ("raised", "SystemExit")


@pytest.mark.parametrize(
    "value",
    [2, 2.0, numpy.float32(2), torch.tensor(2.0), torch.tensor([2]), numpy.array([2.0])],
)
def test_what_counts_as_a_number(value):
    assert calls.to_number(value) == 2


@pytest.mark.parametrize("value", ["2", True, [2], math.nan, torch.ones(2), numpy.ones(2), 2j, {}])
def test_what_does_not(value):
    with pytest.raises(Wrong) as found:
        calls.to_number(value, "a case")
    assert found.value.mistake == "kind"


def test_outside_the_main_thread_an_answer_is_asked_without_a_clock():
    found = []
    thread = threading.Thread(target=lambda: found.append(calls.ask(abs, -3, case="")))
    thread.start()
    thread.join()
    assert found == [3]
