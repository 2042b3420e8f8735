"""The script that lesson 09 writes does under torchrun what the lesson says of it."""

import re
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DistributedSampler

from dtlib import learn
from dtlib.data import open_images
from dtlib.learn import source
from dtlib.models.resnet import resnet18

RANKS = 3
SCORE = re.compile(r"epoch (\d): test loss ([\d.]+), (\d+) right of 300, 3 ranks")


def script() -> str:
    return (source.find("09").room / "train_ddp.py").read_text()


def score_of(checkpoint: Path) -> tuple[float, int]:
    """Test loss and hits of a checkpoint, in one process, over all 300 pictures at once."""
    model = resnet18(width=8)
    model.load_state_dict(torch.load(checkpoint, map_location="cpu")["model"])
    test = open_images("pictures", "test", count=300)
    with torch.no_grad():
        logits = model.eval()(test.pixels / 255 - 0.5)
    hits = (logits.argmax(1) == test.labels).sum()
    return F.cross_entropy(logits, test.labels).item(), int(hits)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_scores_exactly_logs_on_each_rank_and_goes_on(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train_ddp.py").write_text(script())
    Path("run").mkdir()
    for epochs in (1, 2):
        learn.shell(
            f"torchrun --standalone --nproc-per-node={RANKS} train_ddp.py {epochs} pictures run"
        )
        (told,) = SCORE.findall(capsys.readouterr().out)  # one rank prints, one epoch is new
        loss, hits = score_of(Path("run/last.pt"))
        assert (int(told[0]), int(told[2])) == (epochs - 1, hits)
        # Half a unit of the last printed digit is 5e-6; the order of fp32 sums adds some 1e-6.
        assert float(told[1]) == pytest.approx(loss, abs=1e-5)
    for rank in range(RANKS):
        lines = Path(f"run/rank{rank}.log").read_text().splitlines()
        sampler = DistributedSampler(range(300), RANKS, rank, seed=0)
        for epoch, line in enumerate(lines):
            sampler.set_epoch(epoch)
            assert line == f"epoch {epoch} began with {list(sampler)[:5]}"
        assert len(lines) == 2
    assert sorted(path.name for path in Path("run").iterdir()) == [
        "last.pt", *(f"rank{rank}.log" for rank in range(RANKS)),
    ]  # fmt: skip
