"""The fork server loads in an idle second what every DDP rank would load for itself."""

import sys
import time

import pytest

from dtlib.ranks.launcher import launch, start_method


def has_loaded() -> bool:
    return "torch._dynamo" in sys.modules


@pytest.mark.skipif(start_method() == "spawn", reason="ranks are not forked from a server here")
def test_ranks_of_an_idle_server_find_what_ddp_needs() -> None:
    end = time.monotonic() + 60  # a busy machine; 1 s idle and 1.3 s of a core otherwise
    while not launch(has_loaded, ranks=1, show=False)[0]:
        assert time.monotonic() < end
        time.sleep(1.5)  # longer than the second after which the server calls itself idle
