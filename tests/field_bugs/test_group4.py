"""Mixed precision: what stands beside the tests of the strategies and of dtlib.scratch."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
OLD = re.compile(r"torch\.(cuda|cpu)\.amp\b")


# field bug 4.03
def test_a_scheduler_that_does_not_look_moves_on_and_ours_has_none():
    """torch's own: the step is skipped, the scale halved, and a naive scheduler steps all the same.

    dtlib's rate is a function of the steps that counted (see `loop.take_steps`).
    """
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    scaler.scale((weight * torch.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    with pytest.warns(UserWarning, match="lr_scheduler.step"):
        schedule.step()
    assert (weight.item(), scaler.get_scale()) == (1.0, 32768.0)
    assert optimizer.param_groups[0]["lr"] == 0.5


# field bug 4.06
def test_no_old_name_stands_in_the_course():
    """Neither in lessons and pages nor in the package."""
    folders = ("lessons_src", "notebooks", "book", "dtlib")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".ipynb", ".md")
    ]
    assert len(files) > 50
    assert [path for path in files if OLD.search(path.read_text(encoding="utf-8"))] == []


# field bug 4.06
@pytest.mark.parametrize("name", ["autocast", "GradScaler"])
def test_an_old_name_would_fail_every_test(name):
    """torch warns of it, and pyproject.toml makes a FutureWarning an error."""
    with pytest.raises(FutureWarning, match=f"torch.amp.{name}"):
        getattr(torch.cuda.amp, name)()
