"""Tests of rooms share what all tests do: a cache of their own, signals, the real data."""

from tests.conftest import _own_cache, pytest_collection_modifyitems, pytest_configure, real_data

__all__ = ["_own_cache", "pytest_collection_modifyitems", "pytest_configure", "real_data"]

collect_ignore = ["NN_name"]  # what a new room is copied from, without a number yet
