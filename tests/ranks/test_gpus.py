"""Which GPU each rank takes, by what all ranks see; ids and counts are faked."""

import threading

import pytest
import torch
from rank_functions import add_up, pretend_one_gpu
from scripts import run_script

from dtlib.errors import Unavailable
from dtlib.ranks import devices, dist, gpus, launcher
from dtlib.ranks.devices import Availability
from dtlib.ranks.environment import EnvWorld
from dtlib.ranks.gpus import Placed, Seen, placed

BOUND = "each rank has a GPU that the others on its host do not see"


def host(name: str, *lists: str, nccl: bool = True) -> list[Seen]:
    """The ranks of a host, each with the GPUs that it sees: "ab" is two, named after the host."""
    return [Seen(name, i, [f"{name}{gpu}" for gpu in one], nccl) for i, one in enumerate(lists)]


@pytest.mark.parametrize(("seen", "numbers"), [
    (host("n1", "abcd", "abcd", "abcd", "abcd"), [0, 1, 2, 3]),  # also --gpu-bind=none
    (host("n1", "ab", "ab") + host("n2", "ab", "ab"), [0, 1, 0, 1]),
    (host("n1", "a", "b", "c", "d"), [0, 0, 0, 0]),  # --gpus-per-task=1, --gpu-bind=single:1
    (host("n1", "ab", "cd") + host("n2", "ab", "cd"), [0, 1, 0, 1]),  # --gpus-per-task=2
    (host("n1", "abc", "bca", "cab"), [0, 1, 2]),  # a wrapper that turns the list
    (host("n1", "a"), [0]),
])  # fmt: skip
def test_each_rank_takes_a_gpu_of_its_own(seen, numbers):
    places = [placed(seen, rank, "auto") for rank in range(len(seen))]
    assert [place.device for place in places] == [f"cuda:{number}" for number in numbers]
    assert {place.backend for place in places} == {"nccl"}
    own = [each.gpus[number] for each, number in zip(seen, numbers, strict=True)]
    assert len(set(own)) == len(own)


def test_gpus_that_ranks_are_bound_to_are_said():
    assert placed(host("n1", "a", "b"), 1, "auto") == Placed("cuda:0", "nccl", BOUND)
    assert placed(host("n1", "ab", "ab"), 1, "auto") == Placed("cuda:1", "nccl", "")


@pytest.mark.parametrize(("seen", "note", "refusal"), [
    # a laptop: torchrun with two ranks, and one GPU that both of them see
    (host("me", "a", "a"), "2 ranks on this host have 1 GPU, but each needs its own",
     "2 ranks on this host need 2 GPUs, but there is 1; use --ranks 1 or --device cpu."),
    (host("me", *["abcd"] * 6), "6 ranks on this host have 4 GPUs, but each needs its own",
     "6 ranks on this host need 6 GPUs, but there are 4; use --ranks 4 or --device cpu."),
    # one node has none: its ranks would choose another backend, and never meet the others
    (host("n1", "ab", "ab") + host("n2", "", ""),
     "2 ranks on n2 have 0 GPUs, but each needs its own",
     "No CUDA GPU is usable on n2; use --device cpu, or see `dtlib doctor`."),
    (host("me", "", ""), "",
     "No CUDA GPU is usable here; use --device cpu, or see `dtlib doctor`."),
])  # fmt: skip
def test_too_few_gpus_put_all_ranks_on_the_cpu_or_are_refused(seen, note, refusal):
    for rank in range(len(seen)):
        assert placed(seen, rank, "auto") == Placed("cpu", "gloo", note)
        with pytest.raises(Unavailable) as caught:
            placed(seen, rank, "cuda")
        assert str(caught.value) == refusal


def test_without_nccl_on_one_rank_all_take_gloo():
    seen = host("n1", "ab") + host("n2", "ab", nccl=False)
    assert {placed(seen, rank, "cuda").backend for rank in range(2)} == {"gloo"}


def test_ranks_tell_one_another_what_they_see(monkeypatch):
    store, found = torch.distributed.HashStore(), {}
    monkeypatch.setattr(gpus, "visible_gpus", lambda _: [threading.current_thread().name])
    monkeypatch.setattr(devices, "available_here", lambda: Availability(1, nccl=True))

    def rank(number: int) -> None:
        place = EnvWorld(number, number, 3, 3, 0, "n1", 1, "srun")
        found[number] = gpus.place(place, "auto", store)

    threads = [threading.Thread(target=rank, args=(i,), name=f"GPU-{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {number: Placed("cuda:0", "nccl", BOUND) for number in range(3)}


@pytest.mark.parametrize(("seen", "own", "backend"), [
    (host("n1", "abcd", "abcd", "abcd", "abcd"), "cuda:3", "nccl"),
    (host("n1", "a", "b", "c", "d"), "cuda:0", "nccl"),
    (host("n1", "", "", "", ""), None, "gloo"),
])  # fmt: skip
def test_nccl_is_told_the_device_of_a_rank_that_joins(seen, own, backend, monkeypatch):
    there = EnvWorld(3, 3, 4, 4, 0, "127.0.0.1", 1, "srun")
    told, chosen = {}, []
    for name, value in {**there.variables(), "GLOO_SOCKET_IFNAME": "lo"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(dist, "_joined_device", None)
    monkeypatch.setattr(gpus, "everyone", lambda *_: seen)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda name, **more: told.update(more, name=name)
    )
    dist.join(there, "auto", store=torch.distributed.HashStore())
    device = torch.device(own) if own else None
    assert (told["name"], told["device_id"], chosen) == (backend, device, [device] if own else [])
    assert dist._joined_device == torch.device(own or "cpu")
    assert (told["rank"], told["world_size"]) == (3, 4)


TWO_RANKS_ONE_GPU = """
import os
from dtlib import launch
from dtlib.errors import Unavailable
from dtlib.ranks import devices, dist, gpus, launcher
devices.available_here = lambda: devices.Availability(1, nccl=True)
gpus.visible_gpus = lambda count: ["GPU-of-the-laptop"]
try:
    assert launch(lambda: str(dist.world().device), device=os.environ["ASKED"]) == ["cpu", "cpu"]
except Unavailable as error:
    os.write(1, f"{error}\\n".encode())  # a line of two ranks stays a line
"""


@pytest.mark.parametrize("asked", ["auto", "cuda"])
def test_two_ranks_of_torchrun_and_one_gpu(tmp_path, asked, monkeypatch):
    """As on a laptop: the GPU that one rank sees is the other one's, too."""
    monkeypatch.setenv("ASKED", asked)
    start = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    run = run_script(tmp_path, TWO_RANKS_ONE_GPU, *start)
    assert run.returncode == 0, run.stderr
    here = "2 ranks on this host"
    assert [line for line in run.stdout.splitlines() if "GPU" in line] == {
        "auto": [f"2 ranks on cpu with gloo: {here} have 1 GPU, but each needs its own"],
        "cuda": [f"{here} need 2 GPUs, but there is 1; use --ranks 1 or --device cpu."] * 2,
    }[asked]


class OnALaptop:
    """An argument that, as it arrives on a rank and before the ranks meet, fakes one GPU there."""

    def __reduce__(self) -> tuple[object, ...]:
        return pretend_one_gpu, ()


def test_a_launch_explains_once_why_it_uses_no_gpu(monkeypatch, capsys):
    """Ranks of this machine; the next cell need not say it again, and a check says nothing."""
    monkeypatch.setattr(launcher, "_told", set())
    why = "2 ranks on this host have 1 GPU, but each needs its own"
    for said in (f"[rank 0] 2 ranks on cpu with gloo: {why}\n", ""):
        launcher.launch(add_up, OnALaptop(), ranks=2)
        assert capsys.readouterr().out == said
    outcomes = launcher.run_ranks(add_up, (OnALaptop(),), ranks=2)
    assert [outcome.output for outcome in outcomes] == ["", ""]
