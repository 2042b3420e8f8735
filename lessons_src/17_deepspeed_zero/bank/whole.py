"""Answers to lesson 17's exercise on whole weights that its check must refuse, others to accept."""

import math

import torch
import torch.distributed as dist


def gathered(share):
    shares = [torch.empty_like(share) for _ in range(dist.get_world_size())]
    dist.all_gather(shares, share)
    return shares


def size(shape):
    return math.prod(shape)


def on_rank_0(whole):
    return whole if dist.get_rank() == 0 else {}


def rank_0_alone(mine, shapes):
    whole = {}
    if dist.get_rank() == 0:
        for name, shape in shapes.items():
            whole[name] = torch.cat(gathered(mine[name]))[: size(shape)].view(shape)
    return whole


def others_leave(mine, shapes):
    if dist.get_rank() > 0:
        return {}
    return {n: torch.cat(gathered(mine[n]))[: size(s)].view(s) for n, s in shapes.items()}


def keeps_the_padding(mine, shapes):
    return on_rank_0({name: torch.cat(gathered(mine[name])) for name in shapes})


def gives_the_padding_a_shape(mine, shapes):
    return on_rank_0({n: torch.cat(gathered(mine[n])).view(s) for n, s in shapes.items()})


def leaves_it_flat(mine, shapes):
    return on_rank_0({n: torch.cat(gathered(mine[n]))[: size(s)] for n, s in shapes.items()})


def own_share(mine, shapes):
    return on_rank_0({name: mine[name] for name in shapes})


def on_every_rank(mine, shapes):
    return {n: torch.cat(gathered(mine[n]))[: size(s)].view(s) for n, s in shapes.items()}


def last_rank_first(mine, shapes):
    whole = {}
    for name, shape in shapes.items():
        shares = gathered(mine[name])
        flat = torch.cat(shares)[: size(shape)]
        whole[name] = flat.flip(0).view(shape)
    return on_rank_0(whole)


def reversed_shares(mine, shapes):
    whole = {}
    for name, shape in shapes.items():
        flat = torch.cat(gathered(mine[name])[::-1])
        whole[name] = flat[len(flat) - size(shape) :].view(shape)
    return on_rank_0(whole)


def adds_them(mine, shapes):
    whole = {}
    for name, shape in shapes.items():
        flat = mine[name].clone()
        dist.all_reduce(flat)
        whole[name] = flat.repeat(dist.get_world_size())[: size(shape)].view(shape)
    return on_rank_0(whole)


def cuts_before_it_travels(mine, shapes):
    whole = {}
    for name, shape in shapes.items():
        share = mine[name]
        start = dist.get_rank() * len(share)
        share = share[: max(0, min(len(share), size(shape) - start))]
        whole[name] = torch.cat(gathered(share))[: size(shape)].view(shape)
    return on_rank_0(whole)


def cuts_every_share(mine, shapes):
    whole = {}
    for name, shape in shapes.items():
        each = size(shape) // dist.get_world_size()
        whole[name] = torch.cat([share[:each] for share in gathered(mine[name])])
    return on_rank_0(whole)


def only_the_weights(mine, shapes):
    name, shape = next(iter(shapes.items()))
    flat = torch.cat(gathered(mine[name]))[: size(shape)]
    return on_rank_0({name: flat.view(shape), "step": torch.tensor(1)})


def keeps_it_for_the_file(mine, shapes):
    for name in shapes:
        gathered(mine[name])
    return {}


def returns_nothing(mine, shapes):
    for name in shapes:
        gathered(mine[name])


def a_list(mine, shapes):
    whole = [torch.cat(gathered(mine[n]))[: size(s)].view(s) for n, s in shapes.items()]
    return whole if dist.get_rank() == 0 else {}


def lists_of_shares(mine, shapes):
    return on_rank_0({name: gathered(mine[name]) for name in shapes})


# Right.
def by_gather(mine, shapes):
    whole, first = {}, dist.get_rank() == 0
    for name, shape in shapes.items():
        n = dist.get_world_size()
        into = [torch.empty_like(mine[name]) for _ in range(n)] if first else None
        dist.gather(mine[name], into, dst=0)
        if first:
            whole[name] = torch.cat(into)[: size(shape)].reshape(shape)
    return whole


def all_in_one(mine, shapes):
    shares = gathered(torch.cat([mine[name] for name in shapes]))
    whole, start = {}, 0
    for name, shape in shapes.items():
        end = start + len(mine[name])
        flat = torch.cat([share[start:end] for share in shares])
        whole[name], start = flat[: size(shape)].view(shape), end
    return on_rank_0(whole)


def none_elsewhere(mine, shapes):
    whole = {n: torch.cat(gathered(mine[n]))[: size(s)].view(s) for n, s in shapes.items()}
    return whole if dist.get_rank() == 0 else None


WRONG = [
    ("whole_weights", "absent", rank_0_alone),
    ("whole_weights", "uneven", cuts_before_it_travels),
    ("whole_weights", "padding_in_shape", gives_the_padding_a_shape),
    ("whole_weights", "padding", keeps_the_padding),
    ("whole_weights", "flat", leaves_it_flat),
    ("whole_weights", "own", own_share),
    ("whole_weights", "wrong_size", cuts_every_share),
    ("whole_weights", "everybody", on_every_rank),
    ("whole_weights", "order", last_rank_first),
    ("whole_weights", "padding_inside", reversed_shares),
    ("whole_weights", "not_gathered", adds_them),
    ("whole_weights", "nobody", returns_nothing),
    ("whole_weights", "names", only_the_weights),
    ("whole_weights", "no_dict", a_list),
    ("whole_weights", "tensor", lists_of_shares),
]

ALSO_WRONG = [
    ("whole_weights", "absent", others_leave),
    ("whole_weights", "names", keeps_it_for_the_file),
]

RIGHT = [
    ("whole_weights", by_gather),
    ("whole_weights", all_in_one),
    ("whole_weights", none_elsewhere),
]
