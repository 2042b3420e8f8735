"""More answers to `efficiency`, for the tests alone."""


def by_speed_up(alone, together, ranks):
    speed_up = alone / together
    return speed_up / ranks


def by_best_time(alone, together, ranks):
    best = alone / ranks
    return best / together


ALSO_WRONG = [("other", lambda alone, together, ranks: alone - together)]
ALSO_RIGHT = [by_speed_up, by_best_time]
