"""Exercise 7.4, first half: the time of a ring all-reduce."""

from dtlib.learn.solutions import solution

from . import cost

ring_time = solution("ring_time", globals())

EXERCISE = cost.exercise(
    ring_time,
    ranks=(4, 3, 64),
    messages="messages",
    mistakes=[
        ("all_ranks", {"2 * (N - 1)": "N * 2 * (N - 1)"}),
        # half the messages, as its sentence says: half the bytes alone have another
        ("one_half", {"2 * (N - 1) * (alpha + S": "(N - 1) * (alpha + 2 * S"}),
        ("alpha_once", {"(alpha + S / N * beta)": "S / N * beta + (N > 1) * alpha"}),
        ("whole_tensor", {"S / N": "S"}),
    ],
)
