"""`dtlib doctor --nodes` with faked nodes: each thing that can be wrong has its line and remedy."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from good_machine import machine

from dtlib.cluster import doctor
from dtlib.cluster.doctor import examine_nodes, node
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks.processes import Ran

INSIDE = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "MASTER_ADDR": "192.0.2.1",
          "SLURM_JOB_CPUS_PER_NODE": "8(x2)", "SLURM_GPUS_ON_NODE": "4"}  # fmt: skip
ANSWER = {"python": "3.11.7", "dtlib": "0.1.0", "torch": "2.14.1", "commit": "a" * 40, "folder": "",
          "offset_s": 0.0, "within_s": 0.001, "interfaces": ["lo", "ib0"]}  # fmt: skip
SUMMED = {"sums": [3.0, 3.0], "nodes": ["n1", "n2"], "seconds": 2.0}


def asked(
    folder: Path,
    changes: dict[str, dict[str, Any] | None] | None = None,
    summed: dict[str, Any] | Ran = SUMMED,
    said: str = "",
    **env: str,
) -> tuple[dict[str, dict[str, Any]], dict[str, doctor.Finding], list[list[str]]]:
    """Examine two nodes that answer `ANSWER` but for the changes; None: no answer at all."""
    commands: list[list[str]] = []

    def run(command, timeout):
        if command[0] != "srun":
            return summed if isinstance(summed, Ran) else Ran(0, json.dumps(summed))
        commands.append(command)
        lines = [said] if said else []
        for number, host in reversed(list(enumerate(("n1", "n2")))):
            changed = (changes or {}).get(host, {})
            if changed is not None:
                (Path(json.loads(command[-1])["folder"]) / f"seen-{host}").touch()
                answer = {"node": host, "host": host, **ANSWER, **changed}
                lines.append(f"{number}: {json.dumps(answer)}")
        return Ran(0, "\n".join(lines) + "\n")

    there = machine(env={**INSIDE, **env}, folder=folder, run=run)
    answers, findings = examine_nodes(there)
    assert not list(folder.iterdir())
    return answers, {finding.name: finding for finding in findings}, commands


def test_nodes_on_which_all_is_well(tmp_path, capsys):
    answers, found, _ = asked(tmp_path)
    assert list(answers) == ["n1", "n2"]
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["collective"].found == "ranks 1 on n1, 1 on n2 summed in 2.0 s"
    assert doctor.report(list(found.values()), nodes=answers) == 0
    said = capsys.readouterr().out
    assert "n2    n2    3.11.7  0.1.0  2.14.1  aaaaaaa  seen    reached     +0.0000 s" in said
    assert said.endswith("Lessons can run over these nodes.\n")
    assert doctor.report(list(found.values()), nodes=answers, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] == list(answers.values())


def test_nodes_whose_network_interfaces_are_not_those_that_a_variable_names(tmp_path):
    name = "network interfaces"
    _, found, _ = asked(tmp_path, {"n2": {"interfaces": ["lo", "eth0"]}}, GLOO_SOCKET_IFNAME="ib0")
    assert found[name].state == "missing"
    assert found[name].found == "n2: GLOO_SOCKET_IFNAME=ib0 names no network interface of this host"
    assert found[name].remedy == "unset it, or set it to one of eth0"
    _, found, _ = asked(tmp_path, NCCL_SOCKET_IFNAME="lo")
    assert "n1: NCCL_SOCKET_IFNAME=lo is the loopback interface" in found[name].found
    _, found, _ = asked(tmp_path, GLOO_SOCKET_IFNAME="ib0")
    assert (found[name].state, found[name].found) == ("ok", "GLOO_SOCKET_IFNAME=ib0")


OTHER = {"torch": "2.11.0"}
WRONG = [
    ({"n2": OTHER}, "versions", "torch is 2.14.1 on n1; 2.11.0 on n2", "DTLIB_PYTHON"),
    ({"n2": {"commit": "b" * 40 + "-dirty"}}, "versions",
     "commit is aaaaaaa on n1; bbbbbbb-dirty on n2", "one copy of the course"),
    ({"n2": {"commit": None}}, "versions", "commit is aaaaaaa on n1; unknown on n2", "one copy"),
    ({"n2": {"folder": "No such file or directory"}}, "shared folder",
     " on n2: No such file or directory", "set DTLIB_BATCH_OUT"),
    ({"n2": {"error": "192.0.2.1 means 127.0.1.1 here, which is this node itself"}}, "rendezvous",
     "n2: 192.0.2.1 means 127.0.1.1 here, which is this node itself",
     "set MASTER_ADDR to a name or address of n1"),
    ({"n2": None}, "nodes", "n2 did not answer: 1: No module named dtlib", "sinfo --nodes=n2"),
    ({"n2": None}, "rendezvous", "1 of 2 nodes did not answer", "fix the nodes"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "name", "says", "remedy"), WRONG)
def test_what_is_wrong_has_its_line_and_remedy(changes, name, says, remedy, tmp_path):
    said = "0: a warning\n1: No module named dtlib\nsrun: error: n2: task 1: Exited"
    _, found, _ = asked(tmp_path, changes, said=said)
    assert found[name].state == "missing"
    assert says in found[name].found
    assert remedy in found[name].remedy
    assert doctor.report(list(found.values()), nodes={}) == 69


def test_clocks_that_differ_are_noted_when_they_surely_do(tmp_path):
    _, found, _ = asked(tmp_path, {"n2": {"offset_s": -2.5, "within_s": 0.1}})
    assert found["clocks"].state == "note"
    assert found["clocks"].found == "2.5 s apart, within 0.2 s; n2 is -2.5 s off"
    assert "NTP" in found["clocks"].remedy
    _, found, _ = asked(tmp_path, {"n2": {"offset_s": -2.5, "within_s": 1.0}})
    assert found["clocks"].state == "ok"  # they may be 0.5 s apart


def test_a_file_that_a_node_wrote_elsewhere_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "touch", lambda path, *_: None)
    _, found, _ = asked(tmp_path)
    assert "n1: its file is missing here; n2: its file is" in found["shared folder"].found


@pytest.mark.parametrize(("summed", "says"), [
    ({**SUMMED, "sums": [3.0, 2.0]}, "2 ranks summed to [3.0, 2.0]"),
    ({**SUMMED, "nodes": ["n1", "n1"]}, "; no rank on n2"),
    (Ran(1, "DtlibError: The ranks did not start\n"), "DtlibError: The ranks did not start"),
    (Ran(None, "no answer within 150 s"), "no answer within 150 s"),
])  # fmt: skip
def test_a_collective_that_fails_says_how(summed, says, tmp_path):
    _, found, _ = asked(tmp_path, summed=summed)
    assert found["collective"].state == "missing"
    assert says in found["collective"].found


def test_a_loopback_address_is_refused_and_no_rank_is_started(tmp_path):
    _, found, commands = asked(tmp_path, MASTER_ADDR="127.0.0.1")
    assert found["rendezvous"].found.startswith(
        "MASTER_ADDR=127.0.0.1 is a loopback address: on it each host"
    )
    assert "collective" not in found
    assert json.loads(commands[0][-1])["address"] == ""  # nodes need not try it
    _, found, _ = asked(tmp_path, MASTER_ADDR="127.0.0.1", SLURM_JOB_NODELIST="n1")
    assert "collective" in found  # one node: ranks meet on it


def test_a_port_that_is_taken_is_tried_elsewhere(tmp_path):
    taken = {"error": "port 1 cannot be opened (Address already in use)"}
    _, found, commands = asked(tmp_path, {"n1": taken})
    assert len(commands) == 3 and found["rendezvous"].state == "missing"


def test_outside_an_allocation_it_is_a_sentence(tmp_path):
    with pytest.raises(Unavailable, match=r"Slurm allocation.*salloc --nodes=2 dtlib doctor"):
        examine_nodes(machine(env={"PATH": ""}, folder=tmp_path))
    with pytest.raises(BadInput, match="srun started doctor --nodes 2 times"):
        examine_nodes(machine(env={**INSIDE, "SLURM_STEP_NUM_TASKS": "2"}, folder=tmp_path))
    with pytest.raises(Unavailable, match=r"cannot be written to .*DTLIB_BATCH_OUT"):
        examine_nodes(machine(env=INSIDE, folder=tmp_path / "nowhere"))


# --- on a node ----------------------------------------------------------------------------------


def test_the_offset_lies_within_its_bound():
    """The answer was given between question and arrival, however long either took."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ahead = threading.Thread(
            target=node.serve, args=(listener, 2, lambda: time.time() + 100), daemon=True
        )
        ahead.start()
        found = node.ask(listener.getsockname())
        assert abs(found["offset_s"] + 100) <= found["within_s"]
        now = iter(range(1000, 2000, 10))  # every reading of this clock is 10 s later
        slow = node.ask(listener.getsockname(), lambda: next(now))
        assert slow["within_s"] == 5
        ahead.join(10)


def test_nobody_at_the_address_is_an_error_within_its_time(monkeypatch):
    monkeypatch.setattr(node, "REACH", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        port = silent.getsockname()[1]
        assert "was not reached within 0.5 s" in node.ask(("127.0.0.1", port))["error"]
    assert "refused" in node.ask(("127.0.0.1", port))["error"]
    assert node.meet("127.0.0.1", port, 0)["error"].endswith("which is this node itself")
    assert "has no address here" in node.meet("no.such.host.invalid", port, 0)["error"]


def test_the_first_node_answers_itself_too():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
        taken = node.meet("127.0.0.1", port, 1)
    assert taken["error"].startswith(f"port {port} cannot be opened")
    found = node.meet("127.0.0.1", port, 1)
    assert abs(found["offset_s"]) <= found["within_s"]


def test_a_folder_that_is_another_one_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(node, "SEE", 0.0)
    (tmp_path / "token").write_text("theirs")
    assert node.sees(tmp_path, "mine", "n1") == "a different folder has this path"
    assert node.sees(tmp_path / "nowhere", "mine", "n1") == "No such file or directory"
    assert node.sees(tmp_path, "theirs", "n1") == ""
    assert (tmp_path / "seen-n1").exists()


@pytest.mark.parametrize(("cpus", "state", "says"), [
    ("8(x2)", "ok", "8 on a node, 2 for each of 4 ranks"),
    ("8,1", "note", "4 ranks share 1 core of a node and take turns"),
    ("", "note", "Slurm does not say how many this job has on a node"),
])  # fmt: skip
def test_ranks_that_share_a_core(tmp_path, monkeypatch, cpus, state, says):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    _, found, _ = asked(tmp_path, SLURM_JOB_CPUS_PER_NODE=cpus)
    assert (found["cores"].state, found["cores"].found) == (state, says)
