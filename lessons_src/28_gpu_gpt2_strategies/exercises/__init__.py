"""Checks of lesson 28: what fits on a card, fair rows of a table, broken logs, tokens a second."""

from . import diagnose, fair, room, tokens

EXERCISES = {
    "room_left": room.EXERCISE,
    "fair_pairs": fair.EXERCISE,
    "diagnose": diagnose.EXERCISE,
    "tokens_per_second": tokens.EXERCISE,
}
