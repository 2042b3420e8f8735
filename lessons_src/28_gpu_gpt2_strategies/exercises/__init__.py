"""Checks of lesson 28: what fits on a card, fair rows of a table, broken logs, tokens a second."""

from dtlib.learn.checking import Exercise

from . import diagnose, fair, room, tokens

EXERCISES = {
    "room_left": Exercise(room.check, room.reference, minutes=10),
    "fair_pairs": Exercise(fair.check, fair.reference, minutes=12),
    "diagnose": Exercise(diagnose.check, diagnose.reference, minutes=12),
    "tokens_per_second": Exercise(tokens.check, tokens.reference, minutes=10),
}
