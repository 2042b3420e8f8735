"""More answers to `share_of_peak`, for the tests alone."""

from ..exercises.peak import share_of_peak


def by_time(images_per_second, forward_flop, gpus, peak):
    seconds = 1 / images_per_second
    return (forward_flop + 2 * forward_flop) / seconds / gpus / peak


def in_teraflop(images_per_second, forward_flop, gpus, peak):
    return images_per_second / gpus * (3 * forward_flop / 1e12) / (peak / 1e12)


ALSO_WRONG = [
    ("not_positive", lambda *run: -share_of_peak(*run)),
    ("factor", lambda *run: 4 / 3 * share_of_peak(*run)),
]
ALSO_RIGHT = [by_time, in_teraflop]
LADDER = (
    """def share_of_peak(images_per_second, forward_flop, gpus, peak):
    return images_per_second * forward_flop / (gpus * peak)
""",
    """def share_of_peak(images_per_second, forward_flop, gpus, peak):
    done = images_per_second * forward_flop
    return done / gpus / peak
""",
)
