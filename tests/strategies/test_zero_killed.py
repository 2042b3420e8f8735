"""`kill -9` of a rank at some step under infinity: no file is left, and the resume is right.

`test_resume_strategies` does the same to all others, in longer runs.
"""

import os
import signal
from pathlib import Path

import psutil
import pytest

import dtlib
from dtlib.ranks.launcher import RankFailed
from dtlib.strategies import operators as ops
from dtlib.strategies.base import Strategy
from dtlib.training import loop, start
from tests.strategy_runs import SMALL, settings_of
from tests.toy import write_story

pytestmark = [
    pytest.mark.skipif(not ops.deepspeed_is_here(), reason="DeepSpeed is not installed"),
    pytest.mark.usefixtures("own_folder"),
]
STEPS = 6
# Steps and ranks to kill: late and early, each rank once; three more before a release.
KILLS = [(4, 1), (1, 0)] + [(3, 1), (1, 1), (5, 0)] * bool(os.environ.get("DTLIB_EVERY"))


def train(name: str, story: str, out: str, **settings) -> dtlib.Run:
    told = {**SMALL, **settings_of(name), "data": story, "out": out, "steps": STEPS, **settings}
    return dtlib.train("text", 2, checkpoint_every=1, timeout=60, **told)


def left_behind(folder: Path) -> list[str]:
    """Return what a run left: files of infinity, dead children that nobody waited for."""
    files = [str(path) for path in folder.rglob("*.swp")]
    children = psutil.Process().children(recursive=True)
    return [*files, *(str(c.pid) for c in children if c.status() == psutil.STATUS_ZOMBIE)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_and_resumed(tmp_path, monkeypatch):
    name = "infinity"
    if ops.not_built(ops.NEEDED[name]):
        pytest.skip("infinity needs DeepSpeed's operators: dtlib ops build")
    story = write_story(tmp_path / "story")
    expected = [line["loss"] for line in train(name, story, "whole").history]
    take_steps, accumulate = loop.take_steps, Strategy.accumulate
    for turn, (step, rank) in enumerate(KILLS):

        def deadly(task, strategy, recorder, *rest, step=step, rank=rank):
            def last_words(*args):
                if recorder.progress.step == step and strategy.world.rank == rank:
                    seen = [path.stat().st_size for path in Path().rglob("*.swp")]
                    Path("bytes_on_disk").write_text(str(sum(seen)))
                    os.kill(os.getpid(), signal.SIGKILL)
                return accumulate(*args)

            Strategy.accumulate = last_words  # of this process, which dies
            take_steps(task, strategy, recorder, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(start, "train_on_rank", Deadly(deadly))
            with pytest.raises(RankFailed, match=f"[Rr]ank {rank}"):
                train(name, story, f"run{turn}")
        assert int(Path("bytes_on_disk").read_text()) > 0
        assert left_behind(tmp_path) == []
        resumed = train(name, story, f"run{turn}", resume=True)
        # DeepSpeed's Adam multiplies its powers of beta up from step to step, and after a restart
        # takes them at once: one rounding.
        losses = [line["loss"] for line in resumed.history]
        assert losses[step:] == pytest.approx(expected[step:], abs=1e-5)
        assert left_behind(tmp_path) == []


class Deadly:
    """`train_on_rank` whose steps end in a kill; it travels to the ranks."""

    def __init__(self, steps) -> None:
        self.steps = steps

    def __call__(self, prepared):
        loop.take_steps = self.steps
        return ORIGINAL(prepared)


ORIGINAL = start.train_on_rank
