"""Network interfaces that variables name: what is refused, and that a user's valid one stays."""

import gc
import os
import queue
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
from rank_functions import environment

from dtlib.errors import BadInput
from dtlib.ranks import dist, gpus, interfaces, worker
from dtlib.ranks.environment import EnvWorld
from dtlib.ranks.gpus import Placed
from dtlib.ranks.interfaces import chosen_by_nccl, loopback_name, refuse_interfaces
from dtlib.ranks.launcher import launch
from dtlib.ranks.outcome import Outcome

HERE = ["lo", "eth0", "eth1", "docker0", "ib0"]


@pytest.mark.parametrize(("backend", "nodes", "value", "words"), [
    ("gloo", 1, "^lo,docker", "is in NCCL's syntax, but gloo knows no ^, only names; "
     "unset it, or set it to one of lo, eth0, eth1, docker0, ib0."),
    ("gloo", 2, "=eth0", "is in NCCL's syntax"),
    ("gloo", 1, "eth7", "names no network interface of this host"),
    ("gloo", 1, "eth", "names no network interface of this host"),  # NCCL takes a beginning
    ("gloo", 2, "eth0,eth7", "names no network interface of this host"),
    ("gloo", 2, "lo", "is the loopback interface, on which a host reaches only itself, but the "
     "ranks are on several hosts; unset it, or set it to one of eth0, eth1, docker0, ib0."),
    ("nccl", 2, "lo", "is the loopback interface"),
    ("nccl", 1, "wlan", "matches none of this host's network interfaces"),
    ("nccl", 2, "=eth", "matches none of this host's network interfaces"),
])  # fmt: skip
def test_what_is_refused(backend, nodes, value, words):
    name = f"{backend.upper()}_SOCKET_IFNAME"
    with pytest.raises(BadInput) as caught:
        refuse_interfaces({name: value}, backend, nodes, HERE)
    assert str(caught.value).startswith(f"{name}={value} {words}"[: len(name) + 60])
    assert words in str(caught.value)
    assert str(caught.value).count(". ") == 0  # one sentence


@pytest.mark.parametrize(("backend", "nodes", "value"), [
    ("gloo", 1, ""), ("gloo", 2, ""), ("gloo", 1, "lo"), ("gloo", 1, "eth0"),
    ("gloo", 2, "ib0"), ("gloo", 2, "eth0,eth1"), ("nccl", 2, "^lo,docker"), ("nccl", 2, "ib"),
    ("nccl", 2, "=eth0"), ("nccl", 1, "lo"), ("mpi", 2, "lo"),
])  # fmt: skip
def test_what_is_taken(backend, nodes, value):
    other = {"GLOO_SOCKET_IFNAME": "nonsense", "NCCL_SOCKET_IFNAME": "nonsense"}
    refuse_interfaces({**other, f"{backend.upper()}_SOCKET_IFNAME": value}, backend, nodes, HERE)


def test_what_nccl_chooses():
    assert chosen_by_nccl("eth", HERE) == ["eth0", "eth1"]
    assert chosen_by_nccl("=eth0:1,ib0", HERE) == ["eth0", "ib0"]
    assert chosen_by_nccl("^lo,docker", HERE) == ["eth0", "eth1", "ib0"]
    assert chosen_by_nccl("^=lo", HERE) == HERE[1:]


@pytest.mark.parametrize(("nodes", "value", "outcome"), [
    (1, "", "lo"), (1, "eth0", "eth0"), (1, "^lo,docker", BadInput), (1, "eth7", BadInput),
    (2, "", None), (2, "eth0", "eth0"), (2, "lo", BadInput), (2, "^lo,docker", BadInput),
])  # fmt: skip
def test_ranks_that_join(nodes, value, outcome, monkeypatch):
    there = EnvWorld(0, 0, 2, 2 // nodes, 0, "10.0.0.1", 1, "torchrun")
    for name, text in there.variables().items():
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", value)
    if not value:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    started = []
    monkeypatch.setattr(interfaces, "interfaces_here", lambda: HERE)
    monkeypatch.setattr(dist, "loopback_name", lambda: "lo")
    monkeypatch.setattr(dist, "_joined_device", None)
    monkeypatch.setattr(gpus, "place", lambda *_: Placed("cpu", "gloo"))
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, **__: started.append(1))
    if outcome is BadInput:
        with pytest.raises(BadInput):
            dist.join(there, "cpu", store=object())
        assert not started
    else:
        dist.join(there, "cpu", store=object())
        assert os.environ.get("GLOO_SOCKET_IFNAME") == outcome and started


def test_a_rank_that_refuses_still_serves_the_store_that_others_read(monkeypatch):
    """Or a slower rank would lose its connection, and that would be told in place of the reason."""
    for name in ("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.setenv(name, "")  # what the call sets is taken back in the end
    ports = queue.SimpleQueue()
    line = SimpleNamespace(send=lambda kind, port: ports.put(port))
    watch = SimpleNamespace(line=line, go=ports, store=None)

    def refuse(*_, store, **__):
        store.set("dtlib sees 0", "nothing")
        ports.put(store.port)
        raise BadInput("eth77 names no network interface")

    monkeypatch.setattr(dist, "join", refuse)
    with pytest.raises(BadInput):
        job = {"rank": 0, "ranks": 2, "port": None, "device": "cpu", "timeout": 9.0}
        worker._meet_at_home(watch, job)
    gc.collect()
    soon = timedelta(seconds=5)
    other = torch.distributed.TCPStore("127.0.0.1", ports.get(), is_master=False, timeout=soon,
                                       wait_for_workers=False)  # fmt: skip
    assert other.get("dtlib sees 0") == b"nothing"


def test_a_store_that_is_gone_is_no_cause():
    said = "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server crash?"
    assert Outcome(1, "error", error="DistNetworkError", message=said).peer_gone


def test_a_launch_keeps_a_valid_interface_and_refuses_another():
    name = "GLOO_SOCKET_IFNAME"
    others = [one for one in interfaces.interfaces_here() if one != loopback_name()]
    for value in [None, loopback_name(), *[one for one in others if one == "eth0"]]:
        env = {} if value is None else {name: value}
        results = launch(environment, name, ranks=2, show=False, env=env)
        assert results == [{name: value or loopback_name()}] * 2
    with pytest.raises(BadInput, match="GLOO_SOCKET_IFNAME=eth77 names no network interface"):
        launch(environment, name, ranks=2, show=False, env={name: "eth77"})
