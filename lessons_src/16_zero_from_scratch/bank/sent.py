"""More answers to `sent`, for the tests alone."""

from ..exercises.sent import sent


def by_collective(psi, n, stage, k):
    once = psi - psi / n
    reductions = {0: 1, 1: 1, 2: k, 3: k}[stage]
    gathers = {0: 1, 1: 1, 2: 1, 3: 2 * k}[stage]
    return (reductions + gathers) * once


def by_cases(psi, n, stage, k):
    if stage < 2:
        return 2 * (n - 1) * psi / n
    return ((k + 1) if stage == 2 else 3 * k) * (n - 1) * psi / n


ALSO_WRONG = [
    ("alone", lambda psi, n, stage, k: (2, 2, k + 1, 3 * k)[stage] * psi),
    ("elements", lambda psi, n, stage, k: sent(psi, n, stage, k) / (1 if stage else 2)),
    ("kind", lambda *case: str(sent(*case))),
    ("alone", lambda *case: float("nan")),
    ("alone", lambda *case: -1),
    ("elements", lambda *case: 0),
]
ALSO_RIGHT = [by_collective, by_cases]
