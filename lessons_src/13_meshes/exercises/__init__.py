"""Checks of lesson 13: find groups, complete gradients, take a norm, choose a layout."""

from . import choose, groups, norm, sync

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (groups, sync, norm, choose)}
