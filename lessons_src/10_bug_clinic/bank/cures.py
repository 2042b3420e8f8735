"""More answers to `cure`, for the tests alone."""

from ..exercises.cures import instead

WRONG = [
    ("waits", "p01", {10: "dist.recv(theirs, src=other) if rank else None"}),
    ("raises", "p04", {19: "model = TwoHeads()"}),
    ("raises", "p06", {20: "save(Path(place[0]) / str(rank), 3)"}),
    ("untouched", "p02", {1: "import torch"}),
    ("form", "p01", ["dist.send(mine, dst=other)"]),
    ("form", "p01", {"10": "dist.send(mine, dst=other)"}),
    ("form", "p01", {}),
    ("no_line", "p01", {99: "dist.send(mine, dst=other)"}),
    ("syntax", "p01", {10: "if rank == 0"}),
    ("symptom", "p09", {13: 'return {"accuracy": 0.3, "samples": 10}'}),
]
ALSO_WRONG = [(key, instead(name, lines)) for key, name, lines in WRONG]
ALSO_WRONG.append(("none", instead("p01", None)))
ALSO_RIGHT = [
    instead("p05", {14: "server.bind(('127.0.0.1', 0))"}),
    instead("p13", {13: "if True:"}),
]
RARE = {"other"}  # which cure has no sentence of its own yet is not known
LADDER = (
    "def cure(patient):\n    return {2: 'import torch.distributed as dist'}",
    "def cure(patient):\n    lines = {2: 'import torch.distributed as dist'}\n    return lines",
)
