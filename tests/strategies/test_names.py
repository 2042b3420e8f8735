"""Which strategies there are: read without loading one, and each with a row of the tests."""

import pytest
from processes import python

from dtlib import strategies
from dtlib.errors import BadInput
from dtlib.sim import states
from dtlib.strategies.ddp import DDP
from tests.strategy_runs import TABLE, plain


def test_unknown_strategy_is_refused_with_those_there_are():
    there = strategies.names()
    assert len(there) > 10 and {"accelerate", "ddp", "dp", "single", "zero3"} <= set(there)
    with pytest.raises(BadInput) as caught:
        strategies.find("dpp")
    assert f"unknown strategy 'dpp'; choose from {', '.join(there)}. Did" in str(caught.value)
    assert strategies.find("dp") is strategies.find("ddp") is DDP


def test_names_are_read_without_loading_a_strategy():
    assert strategies.names() == sorted(strategies.available())
    code = "import sys; sys.modules['torch'] = None; from dtlib import strategies as s; s.names()"
    assert python("-c", code).returncode == 0


def test_every_strategy_has_its_row_in_the_table_of_tests():
    """With the row it is compared with `single`, saved, resumed and killed."""
    assert {*plain(TABLE), *states.ALIASES} == set(strategies.names())
