"""More answers to `cure`, for the tests alone."""

from dtlib.learn.verdicts import Wrong

from ..exercises.cures import PROGRAMS, cure, instead, learn_all, read
from ..ward import treated

WRONG = [
    ("alone", "p01", {10: "theirs.fill_(10.0**other)", 11: ""}),
    ("still_waits", "p01", {10: "dist.send(mine, dst=other)", 11: "dist.recv(theirs, src=other)"}),
    ("form", "p01", ["dist.send(mine, dst=other)"]),
    ("form", "p01", {"10": "dist.send(mine, dst=other)"}),
    ("form", "p01", {}),
    ("no_line", "p01", {99: "dist.send(mine, dst=other)"}),
    ("syntax", "p01", {10: "if rank == 0"}),
    ("data", "p02", {12: "dist.broadcast(best, src=0)", 14: "dist.broadcast(best, src=0)"}),
    ("data", "p02", {12: "best = torch.tensor([3.0])", 14: "best = torch.tensor([3.0])"}),
    ("mixed", "p02", {12: "dist.all_reduce(best)"}),
    ("mixed", "p02", {12: "dist.all_reduce(best, dist.ReduceOp.MAX)"}),
    ("untouched", "p02", {1: "import torch"}),
    ("untouched", "p02", {1: "import torch  # as before"}),
    ("alone", "p03", {9: "for x in samples:", 11: "pass"}),
    ("other", "p03", {13: "if rank == n - 1:\n    dist.all_reduce(torch.zeros(()))\n"
                          'return {"total": total}'}),
    ("keyword", "p04", {19: "model = DistributedDataParallel(TwoHeads(), find_unused=True)"}),
    ("unreduced", "p04", {21: "loss = model(x, left=True).sum()"}),
    ("no_gradient", "p04", {20: "for _ in range(1):"}),
    ("no_gradient", "p04", {19: "model = TwoHeads()"}),
    ("p05_all", "p05", {9: "try:\n    server.bind(('127.0.0.1', port))\n"
                           "except OSError:\n    pass"}),
    ("p05_all", "p05", {9: "server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
                           "server.bind(('127.0.0.1', port))"}),
    ("p05_all", "p05", {9: "server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                           "server.bind(('127.0.0.1', port))"}),
    ("p05_own", "p05", {9: "server.bind(('127.0.0.1', port + rank))"}),
    ("p05_own", "p05", {9: "server.bind(('127.0.0.1', 0))"}),
    ("p06_race", "p06", {20: "try:\n    save(Path(place[0]), step)\nexcept OSError:\n    pass"}),
    ("p06_race", "p06", {20: "if not (Path(place[0]) / f'step_{step}').exists():\n"
                             "    save(Path(place[0]), step)"}),
    ("p06_race", "p06", {11: "unfinished.mkdir(exist_ok=True)"}),
    ("data", "p06", {20: "if rank == 0:\n    save(Path(place[0]), 3)"}),
    ("other", "p06", {20: "if rank == 0:\n    (Path(place[0]) / f'step_{step}').mkdir()"}),
    ("p07_same", "p07", {7: "batches = [torch.randn(64, generator=generator) + rank"
                            " for _ in range(3)]"}),
    ("chance", "p07", {6: "generator = torch.Generator()\ngenerator.seed()"}),
    ("other", "p08", {9: "sampler.set_epoch(rank)\norders[epoch] = list(sampler)"}),
    ("alone", "p09", {10: "hits, count = right.sum(), torch.tensor(len(right))",
                      11: "", 12: ""}),
    ("raises", "p09", {8: "sampler = range(rank, 10, n)"}),
    ("last_line", "p09", {13: 'return {"accuracy": 0.3, "samples": 10}'}),
    ("alone", "p10", {10: "gradient = 2 * (w - targets.mean())", 11: "pass"}),
    ("data", "p11", {9: "loss = losses.sum() / 6"}),
    ("needs_gpu", "p12", {7: "norm = torch.nn.SyncBatchNorm(1)"}),
    ("other", "p13", {12: "if rank > 0 and own.norm() > 1:"}),
    ("literal", "p15", {13: "for _ in range(n // 3):"}),
    ("p16_off", "p16", {6: "scale = 1.0\ngradient = (exact * scale).to(torch.half)"}),
    ("data", "p16", {12: "torch.nn.utils.clip_grad_norm_([gradient], scale)"}),
    ("other", "p17", {9: "skip = torch.tensor(float(x is batches[2]))"}),
    ("data", "p17", {10: "dist.broadcast(skip, src=n - 1)\n"
                         "gradient = torch.zeros(1) if skip else x - w"}),
    ("no_name", "p17", {10: "gradient = torch.zeros(1) if skip else y - w"}),
    ("busy", "p17", {8: "for x in batches:\n    while True: pass"}),
    ("killed", "p17", {8: "import os\nfor x in batches:\n    os._exit(3)"}),
    ("untouched", "p17", {9: "skip = torch.tensor(0.0 if x.isfinite() else 1.0)"}),
]  # fmt: skip
RIGHT = [
    ("p01", {10: "if rank:\n    dist.send(mine, dst=other)\ndist.recv(theirs, src=other)",
             11: "if not rank:\n    dist.send(mine, dst=other)"}),
    ("p02", {12: "pass", 14: "pass",
             15: "dist.all_reduce(best, dist.ReduceOp.MIN)\n"
                 'return {"best": best.item(), "gradient": gradient.sum().item()}'}),
    ("p04", {14: "a, b = self.left(self.body(x)), self.right(self.body(x))\n"
                 "return a + 0 * b if left else b + 0 * a"}),
    ("p05", {8: "if rank:\n    dist.barrier()\n    return {'ended': 1.0}\n"
                "server = socket.socket()"}),
    ("p06", {20: "if rank == n - 1:\n    save(Path(place[0]), step)"}),
    ("p07", {7: "batches = [torch.randn(64, generator=generator)"
                " for _ in range(3 * n)][rank::n]"}),
    ("p08", {8: "for epoch in range(3):\n    sampler.set_epoch(epoch)"}),
    ("p09", {8: "sampler = range(rank, len(right), n)"}),
    ("p12", {9: "both = [torch.zeros_like(x) for _ in range(n)]\ndist.all_gather(both, x)\n"
                "norm(torch.cat(both))"}),
    ("p13", {12: "if True:"}),
    ("p16", {12: "gradient /= (gradient.norm() / scale).clamp(min=1)"}),
    ("p16", {12: "gradient *= min(1, scale / gradient.norm())"}),
    ("p17", {12: "dist.all_reduce(skip)\nw += 0 if skip else 0.5 * gradient / n"}),
]  # fmt: skip


def programs():
    """All of the bank: in one launch they take a fraction of the time."""
    rows = [*PROGRAMS, *(row[1:] for row in WRONG), *RIGHT]
    return [(name, treated(name, lines)) for name, lines in rows if runs(name, lines)]


def runs(name, lines):
    try:
        return bool(read(lines, name))
    except Wrong:
        return False  # no cure at all: it is refused before it runs


def row(name, lines):
    """The course's cures, but for one patient."""

    def answer(patient):
        if patient == name:
            learn_all(programs())
        return lines if patient == name else cure(patient)

    return answer


ALSO_WRONG = [(key, row(name, lines)) for key, name, lines in WRONG]
ALSO_WRONG.append(("none", instead("p01", None)))
ALSO_RIGHT = [row(name, lines) for name, lines in RIGHT]
LADDER = (
    "def cure(patient):\n    return {2: 'import torch.distributed as dist'}",
    "def cure(patient):\n    lines = {2: 'import torch.distributed as dist'}\n    return lines",
)
