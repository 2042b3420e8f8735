"""More answers to `exposed`, for the tests alone."""

import itertools

from ..exercises.exposed import exposed, union


def sorts_what_it_gets(communication, compute):
    communication.sort()
    return exposed(communication, compute)


def rounds(digits):
    return lambda communication, compute: round(exposed(communication, compute), digits)


def drops_what_overlaps(communication, compute):
    kept = [a for a in communication if not any(a[0] < b[1] and b[0] < a[1] for b in compute)]
    return union(kept)


# Right.
def by_points(communication, compute):
    points = sorted({at for span in [*communication, *compute] for at in span})
    total = 0
    for begin, end in itertools.pairwise(points):
        inside = [
            any(b <= begin and end <= e for b, e in side) for side in (communication, compute)
        ]
        total += (end - begin) * (inside[0] and not inside[1])
    return total


def by_what_is_hidden(communication, compute):
    both = union([*communication, *compute])
    hidden = union(communication) + union(compute) - both
    return union(communication) - hidden


ALSO_WRONG = [
    ("changed", sorts_what_it_gets),
    ("exposed", drops_what_overlaps),
    *(("rounded", rounds(digits)) for digits in (2, 3, 6)),
    ("kind", lambda communication, compute: communication),
]
ALSO_RIGHT = [by_points, by_what_is_hidden]
