"""More answers to `bytes_moved`, for the tests alone."""

from fractions import Fraction

from ..exercises.moved import bytes_moved


def each(way):
    return lambda *given: {link: way(size) for link, size in bytes_moved(*given).items()}


def but(**changed):
    """The right answer with some links of infinity in bytes a parameter of the share."""

    def answer(parameters, ranks, way, micro_batches):
        found = bytes_moved(parameters, ranks, way, micro_batches)
        share = parameters / ranks
        return found | {
            link: size(micro_batches) * share
            for link, size in changed.items()
            if link == "to_host" or way == "infinity"
        }

    return answer


def whole(parameters, ranks, way, micro_batches):
    found = bytes_moved(parameters, 1, way, micro_batches)
    return bytes_moved(parameters, ranks, way, micro_batches) | {
        link: found[link] for link in ("to_device", "disk_read", "disk_write")
    }


def share_again(parameters, ranks, way, micro_batches):
    found = bytes_moved(parameters / ranks, ranks, way, micro_batches)
    return found | {"to_host": found["to_host"] * ranks}


def without_zeros(*given):
    return {link: size for link, size in bytes_moved(*given).items() if size}


def two_mistakes(parameters, ranks, way, micro_batches):
    found = bytes_moved(parameters, ranks, way, micro_batches)
    if way == "infinity":
        found["disk_read"] = 4 * parameters / ranks * micro_batches
        found["disk_write"] = 2 * parameters / ranks
    return found


def all_weights(parameters, ranks, way, micro_batches):
    """Under infinity the whole model's weights, as every device needs them."""
    found = bytes_moved(parameters, ranks, way, micro_batches)
    if way == "infinity":
        found["to_device"] = 4 * parameters * micro_batches
    return found


def all_written(parameters, ranks, way, micro_batches):
    found = bytes_moved(parameters, ranks, way, micro_batches)
    return found | {"disk_write": found["disk_write"] * ranks}


def no_branch(parameters, ranks, way, micro_batches):
    """One answer for both ways."""
    return bytes_moved(parameters, ranks, "offload", micro_batches)


def all_new_weights(parameters, ranks, way, micro_batches):
    """Under offload the new weights of all ranks."""
    found = bytes_moved(parameters, ranks, way, micro_batches)
    return found | ({"to_device": 2 * parameters} if way == "offload" else {})


# Right.
def by_a_table(parameters, ranks, way, micro_batches):
    often, once = {
        "offload": ((2, 0, 0, 0), (0, 2, 0, 0)),
        "infinity": ((2, 4, 4, 0), (0, 0, 12, 14)),
    }[way]
    links = ("to_host", "to_device", "disk_read", "disk_write")
    return {
        link: Fraction(parameters, ranks) * (a * micro_batches + b)
        for link, a, b in zip(links, often, once, strict=True)
    }


def by_adding(parameters, ranks, way, micro_batches):
    moved = dict.fromkeys(("to_host", "to_device", "disk_read", "disk_write"), 0.0)
    share = parameters / ranks
    for _ in range(micro_batches):
        moved["to_host"] += 2 * share
        if way == "infinity":
            for _ in ("forward", "backward"):
                moved["disk_read"] += 2 * share
                moved["to_device"] += 2 * share
    if way == "offload":
        moved["to_device"] += 2 * share
    else:
        moved["disk_read"] += 12 * share
        moved["disk_write"] += 14 * share
    return moved


ALSO_WRONG = [
    ("kind", lambda *given: list(bytes_moved(*given).values())),
    ("none", lambda *given: print(bytes_moved(*given))),
    ("keys", without_zeros),
    ("no_number", each(lambda size: f"{size:.0f}")),
    ("in_gigabytes", each(lambda size: size / 1e9)),
    ("fp32", each(lambda size: 2 * size)),
    ("elements", each(lambda size: size / 2)),
    ("not_shared", whole),
    ("shared_twice", share_again),
    ("state_not_read", two_mistakes),
    ("moments_alone", but(disk_read=lambda k: 4 * k + 8, disk_write=lambda k: 10)),
    ("worked_line", but(to_host=lambda k: 2)),
    ("not_shared", all_weights),
    ("as_offload", no_branch),
    ("not_shared", all_written),
    ("backward_once", but(to_device=lambda k: 2 * k + 2)),
    ("not_shared", all_new_weights),
    ("recomputed", but(to_device=lambda k: 2 * 3 * k, disk_read=lambda k: 6 * k + 12)),
    ("exchanged", but(disk_read=lambda k: 14, disk_write=lambda k: 4 * k + 12)),
    ("gradients_read", but(disk_read=lambda k: 4 * k + 16, disk_write=lambda k: 18)),
    ("unrecognised", but(to_device=lambda k: 7)),
]
ALSO_RIGHT = [by_a_table, by_adding]
LADDER = (
    """def bytes_moved(parameters, ranks, way, micro_batches):
    share = parameters / ranks
    down = 2 * share * micro_batches
    return {"to_host": down, "to_device": 0, "disk_read": 0, "disk_write": 0}""",
    """def bytes_moved(parameters, ranks, way, micro_batches):
    moved = dict.fromkeys(["to_device", "disk_read", "disk_write"], 0)
    moved["to_host"] = 2 * parameters / ranks * micro_batches
    return moved""",
)
