"""More answers to `whole_weights`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.whole_weights import whole_weights

WHOLE = "torch.cat(shares)[:n].view(shape)"


def others_leave(mine, shapes):
    return {} if dist.get_rank() > 0 else whole_weights(mine, shapes)


def with_a_step(mine, shapes):
    whole = whole_weights(mine, shapes)
    return whole and whole | {"step": torch.tensor(1)}


def keeps_the_last_model(mine, shapes, *, kept={}):  # noqa: B006
    kept |= whole_weights(mine, shapes)
    return kept


def keeps_its_shares(mine, shapes):
    return whole_weights(mine, shapes) or {name: share[:1] for name, share in mine.items()}


def two_collectives(mine, shapes):
    if dist.get_rank() == 0:
        return whole_weights(mine, shapes)
    for name in shapes:
        dist.all_reduce(mine[name])
    return {}


def two_dtypes(mine, shapes):
    if dist.get_rank() == 0:
        return whole_weights(mine, shapes)
    return whole_weights({name: share.double() for name, share in mine.items()}, shapes)


# Right.
def by_gather(mine, shapes):
    whole, first = {}, dist.get_rank() == 0
    for name, shape in shapes.items():
        n = dist.get_world_size()
        into = [torch.empty_like(mine[name]) for _ in range(n)] if first else None
        dist.gather(mine[name], into, dst=0)
        if first:
            whole[name] = torch.cat(into)[: torch.Size(shape).numel()].reshape(shape)
    return whole


def all_in_one(mine, shapes):
    joined = torch.cat([mine[name] for name in shapes])
    shares = [torch.empty_like(joined) for _ in range(dist.get_world_size())]
    dist.all_gather(shares, joined)
    whole, start = {}, 0
    for name, shape in shapes.items():
        end = start + len(mine[name])
        flat = torch.cat([share[start:end] for share in shares])
        whole[name], start = flat[: torch.Size(shape).numel()].view(shape), end
    return whole if dist.get_rank() == 0 else {}


ALSO_WRONG = [
    ("padding", {"[:n].view(shape)": ""}),
    ("flat", {".view(shape)": ""}),
    ("other_shape", {".view(shape)": ".view(-1, 1)"}),
    ("wrong_size", {WHOLE: "torch.cat([one[: n // len(shares)] for one in shares])"}),
    ("tensor", {WHOLE: "shares"}),
    ("no_dict", {"return whole": "return list(whole.values()) or whole"}),
    ("names", {"return whole": "return {}"}),
    ("nobody", {"return whole": "return None"}),
    ("own", lambda mine, shapes: {} if dist.get_rank() else mine),
    ("names", with_a_step),
    ("names", keeps_the_last_model),
    ("padding_inside", {"dist.all_gather(shares, mine[name])": "[s.zero_() for s in shares]"}),
    ("wrong_size", {WHOLE: "torch.cat([shares[0]] * len(shares))"}),
    ("short_in_shape", {"[:n]": "[:n - 1]"}),
    ("padding_in_shape", {"[:n]": "[:n + 1]"}),
    ("left_over", keeps_its_shares),
    ("short_in_shape", {"torch.cat(shares)[:n]": "torch.cat([s[s != 0] for s in shares])"}),
    ("mismatch", two_collectives),
    ("mismatch", two_dtypes),
]
HANG = [("absent", others_leave), ("died", {"whole = {}": "import os; os._exit(3)"})]
ALSO_RIGHT = [by_gather, all_in_one, lambda *given: whole_weights(*given) or None]
