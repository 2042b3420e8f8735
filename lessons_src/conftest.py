"""Tests of rooms have what all tests have: a cache of their own, signals that are heard, real data."""

from tests.conftest import _own_cache, pytest_configure, real_data

__all__ = ["_own_cache", "pytest_configure", "real_data"]
