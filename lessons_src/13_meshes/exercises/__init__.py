"""Checks of lesson 13: groups, gradients, a norm, a layout, chunks of a sequence, experts."""

from . import choose, deal, experts, groups, norm, sync

EXERCISES = {m.EXERCISE.name: m.EXERCISE for m in (groups, sync, norm, choose, deal, experts)}
