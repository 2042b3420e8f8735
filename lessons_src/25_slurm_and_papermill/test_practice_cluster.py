"""The practice cluster does with a script what bash and Slurm do."""

import signal

import pytest

from . import practice_cluster
from .practice_cluster import Started, Training


def test_srun_starts_a_command_once_for_each_task_with_its_variables() -> None:
    line = "bash -c 'echo $SLURM_NODEID $SLURM_PROCID $SLURM_LOCALID $(hostname)'"
    for options in ("--ntasks-per-node=2", "--ntasks-per-node 2", "-n 4 -N2 --label", "--ntasks=4"):
        ended = practice_cluster.run(f"srun {options} {line}", nodes=2)
        assert ended.output.split("\n")[:-1] == ["0 0 0 n1", "0 1 1 n1", "1 2 0 n2", "1 3 1 n2"]


def test_words_reach_torchrun_as_they_were_given() -> None:
    ended = practice_cluster.run('srun torchrun --x "$@"', ["a b", "", "c\nd"], nodes=2)
    words = ["--x", "a b", "", "c\nd"]
    assert ended.started == [Started("n1", "torchrun", words), Started("n2", "torchrun", words)]
    module = practice_cluster.run("python -m torch.distributed.run --x; python3 train.py")
    assert [(one.program, one.words) for one in module.started] == [
        ("torchrun", ["--x"]), ("python", ["train.py"]),
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["hostnames", "hostname"])  # Slurm takes both
def test_nodes_of_a_list_are_unfolded(word: str) -> None:
    ended = practice_cluster.run(f'scontrol show {word} "$SLURM_JOB_NODELIST"', nodes=3)
    assert ended.output == "n1\nn2\nn3\n"


def test_names_that_slurm_keeps_for_older_scripts_are_there() -> None:
    ended = practice_cluster.run(
        'echo "$SLURM_JOBID $HOSTNAME"; srun bash -c \'echo "$SLURM_LAUNCH_NODE_IPADDR"\'', nodes=2
    )
    assert ended.output == "4711 n1\nn1\nn1\n"


def test_srun_fails_when_a_task_does() -> None:
    line = "srun bash -c 'exit $SLURM_NODEID'"
    assert [practice_cluster.run(line, nodes=n).code for n in (1, 3)] == [0, 2]


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (3, 3), (-9, 137)])
def test_a_script_sees_how_its_training_ended(code: int, ends: int) -> None:
    assert practice_cluster.train('"$@"', Training(code=code)).code == ends


def test_a_training_that_is_told_saves_and_ends_with_75() -> None:
    script = "\"$@\" &\ntrap 'kill -USR1 $!' USR1\nwait\nwait $!\nexit $?"
    ended = practice_cluster.train(script, Training(life=5, saving=0.1, told=True))
    assert [what for _, what in ended.events] == ["ready", "told", "checkpoint", "over"]
    assert ended.code == 75


def test_a_second_signal_ends_the_second_wait() -> None:
    script = "\"$@\" &\ntrap 'kill -USR1 $!' USR1\nwait\nwait $!\nexit $?"
    ended = practice_cluster.train(script, Training(life=5, saving=1, told=True, twice=True))
    assert ended.code == 128 + signal.SIGUSR1 and ended.when("checkpoint") is None


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    monkeypatch.setattr(practice_cluster, "SECONDS", 0.5)
    ended = practice_cluster.run("sleep 77.25 & while true; do sleep 0.1; done")
    assert ended.code is None
    assert not [p for p in psutil.process_iter(["cmdline"]) if "77.25" in (p.info["cmdline"] or [])]


def test_a_script_that_bash_cannot_read() -> None:
    assert "unexpected" in practice_cluster.syntax_error("if true; then")
    assert practice_cluster.syntax_error("true") == ""


def test_an_option_of_srun_without_its_value_ends_at_once() -> None:
    ended = practice_cluster.run("srun -N")
    assert ended.code == 1 and "option -N requires an argument" in ended.output


def test_calls_at_once_are_noted_one_by_one() -> None:
    """With a newline among its words, a call was once written in pieces that mixed with others."""
    script = 'for i in $(seq 30); do torchrun "$i" "$@" & done; wait'
    ended = practice_cluster.run(script, ["two words", "two\nlines"])
    assert sorted(int(one.words[0]) for one in ended.started) == list(range(1, 31))
    assert {tuple(one.words[1:]) for one in ended.started} == {("two words", "two\nlines")}
