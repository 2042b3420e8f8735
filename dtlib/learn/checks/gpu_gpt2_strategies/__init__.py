"""Checks of lesson 28: what fits on a card, fair rows of a table, broken logs, tokens a second."""

from dtlib.learn.checks.gpu_gpt2_strategies import diagnose, fair, room, tokens

EXERCISES = {
    "room_left": room.EXERCISE,
    "fair_pairs": fair.EXERCISE,
    "diagnose": diagnose.EXERCISE,
    "tokens_per_second": tokens.EXERCISE,
}
