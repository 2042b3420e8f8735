"""`dtlib doctor --nodes`: can a job run over all nodes of this Slurm allocation?

srun runs `node.py` once on every node; then ranks on all nodes, started as a lesson starts them,
sum their numbers. Everything has a time-out.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from dtlib.cluster.doctor.machine import Finding, Machine
from dtlib.cluster.doctor.probes_system import interfaces_of
from dtlib.errors import BadInput, Unavailable, counted, in_words
from dtlib.measure.columns import aligned
from dtlib.ranks import allocation, slurm
from dtlib.ranks.environment import first_hosts, refuse_loopback
from dtlib.ranks.processes import Ran

ASKING = 75.0  # seconds for the step that asks every node; a node itself gives up after 45
SUMMING = 150.0  # seconds for the collective; a cold file system loads torch slowly
APART = 1.0  # seconds; clocks further apart put log lines and files out of order
ONE_ENVIRONMENT = (
    "let all nodes use one environment and one copy of the course, on a file system that they "
    "share (DTLIB_PYTHON in slurm/site.env)"
)
Answers = dict[str, dict[str, Any]]


def examine_nodes(machine: Machine) -> tuple[Answers, list[Finding]]:
    """Ask every node of the allocation.

    Returns
    -------
    tuple
        Each node's answer by the node's name, and the findings.

    Raises
    ------
    Unavailable
        Outside an allocation.
    BadInput
        When srun started this process more than once.
    """
    hosts = _hosts(machine.env)
    address = machine.env.get("MASTER_ADDR") or hosts[0]
    refused = _refused(address, hosts)
    place = Path(machine.env.get("DTLIB_BATCH_OUT") or machine.folder)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".dtlib-doctor-", dir=place))
    except OSError as error:
        raise Unavailable(
            f"{place} cannot be written to ({in_words(error)}): start it in a folder that all "
            "nodes share, or set DTLIB_BATCH_OUT to one."
        ) from error
    try:
        answers, ran = _ask(machine, hosts, "" if refused else address, folder)
        seen = [host for host in hosts if (folder / f"seen-{host}").exists()]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    meeting = _rendezvous(hosts, answers, address, refused)
    interfaces = {host: answer["interfaces"] for host, answer in answers.items()}
    findings = [
        _all_answered(hosts, answers, ran), _same(answers), _shared_folder(answers, seen, place),
        meeting, interfaces_of(interfaces, len(hosts), machine.env), _clocks(answers),
        _cores(machine.env),
    ]  # fmt: skip
    if meeting.state == "ok":
        findings.append(_collective(machine, hosts))
    return answers, findings


def _hosts(env: Mapping[str, str]) -> list[str]:
    hosts = first_hosts(env.get("SLURM_JOB_NODELIST", ""))
    if "SLURM_JOB_ID" not in env or not hosts:
        raise Unavailable(
            "doctor --nodes examines the nodes of a Slurm allocation, and this process is in none: "
            "`salloc --nodes=2 dtlib doctor --nodes` allocates two nodes and examines them."
        )
    if int(env.get("SLURM_STEP_NUM_TASKS", 1)) > 1:
        raise BadInput(
            f"srun started doctor --nodes {env['SLURM_STEP_NUM_TASKS']} times; start it once, "
            "without srun: it examines all nodes itself."
        )
    return hosts


def _refused(address: str, hosts: Sequence[str]) -> str:
    """Return why ranks on several hosts cannot meet at an address, or "" if they can."""
    try:
        if len(hosts) > 1:
            refuse_loopback(address, hosts)
    except BadInput as error:
        return str(error)
    return ""


def _ask(machine: Machine, hosts: Sequence[str], address: str, folder: Path) -> tuple[Answers, Ran]:
    """Ask all nodes at once; if another program has the port, try another one."""
    token = secrets.token_hex(8)
    (folder / "token").write_text(token)
    settings: dict[str, Any] = {
        "address": address, "nodes": len(hosts), "folder": str(folder), "token": token,
    }  # fmt: skip
    for _ in range(slurm.ATTEMPTS):
        settings["port"] = slurm.random_port()
        flags = ("--label", "--job-name=dtlib-doctor")
        command = slurm.srun(hosts, "dtlib.cluster.doctor.node", *flags)
        ran = machine.run([*command, json.dumps(settings)], ASKING)
        answers = _answers(ran.output, hosts)
        if not any("cannot be opened" in a.get("error", "") for a in answers.values()):
            break
    return answers, ran


def _answers(output: str, hosts: Sequence[str]) -> Answers:
    """Read the JSON lines of srun's output; `--label` starts each with the task's number."""
    lines = re.findall(r"^\s*\d+: (\{.*\})$", output, re.MULTILINE)
    by_name = {answer["node"]: answer for answer in map(json.loads, lines)}
    return {host: by_name[host] for host in hosts if host in by_name}


def _all_answered(hosts: Sequence[str], answers: Answers, ran: Ran) -> Finding:
    silent = [host for host in hosts if host not in answers]
    if not silent:
        return Finding("nodes", "ok", f"{len(hosts)} answered: {', '.join(hosts)}")
    said = [line for line in ran.output.splitlines() if line.strip() and "{" not in line]
    numbers = [f"{hosts.index(host)}:" for host in silent]
    own = [line.strip() for line in said if line.strip().startswith(tuple(numbers))]
    last = (own or said or [f"no answer within {ASKING:g} s"])[-1]
    remedy = f"see `sinfo --nodes={','.join(silent)}`; {ONE_ENVIRONMENT}"
    return Finding("nodes", "missing", f"{', '.join(silent)} did not answer: {last}", remedy)


def _same(answers: Answers) -> Finding:
    """Do all nodes run the same code?"""
    parts, differ = [], []
    for name in ("python", "dtlib", "torch", "commit"):
        by_value: dict[str, list[str]] = {}
        for host, answer in answers.items():
            by_value.setdefault(_short(name, answer[name]), []).append(host)
        if len(by_value) > 1:
            each = "; ".join(f"{value} on {', '.join(on)}" for value, on in by_value.items())
            differ.append(f"{name} is {each}")
        else:
            parts.append(f"{name} {next(iter(by_value), 'unknown')}")
    if differ:
        return Finding("versions", "missing", ", ".join(differ), ONE_ENVIRONMENT)
    return Finding("versions", "ok" if answers else "missing", ", ".join(parts))


def _short(name: str, value: str | None) -> str:
    if name != "commit" or value is None:
        return str(value or "unknown")
    return value[:7] + ("-dirty" if value.endswith("-dirty") else "")


def _shared_folder(answers: Answers, seen: Sequence[str], place: Path) -> Finding:
    """Does every node see the folder, and does this one see what they write there?"""
    blind = {host: answer["folder"] for host, answer in answers.items() if answer["folder"]}
    blind |= {h: "its file is missing here" for h in answers if h not in seen and h not in blind}
    if not blind:
        return Finding("shared folder", "ok", f"{place}, read and written by every node")
    found = "; ".join(f"{host}: {why}" for host, why in blind.items())
    remedy = "start in a folder that all nodes share, or set DTLIB_BATCH_OUT to one"
    return Finding("shared folder", "missing", f"{place} on {found}", remedy)


def _rendezvous(hosts: Sequence[str], answers: Answers, address: str, refused: str) -> Finding:
    """Do all nodes reach the address at which ranks meet?"""
    remedy = f"set MASTER_ADDR to a name or address of {hosts[0]} that all nodes reach"
    if refused:
        return Finding("rendezvous", "missing", refused, remedy)
    lost = {host: answer["error"] for host, answer in answers.items() if "error" in answer}
    if lost:
        found = "; ".join(f"{host}: {why}" for host, why in lost.items())
        return Finding("rendezvous", "missing", found, remedy)
    silent = len(hosts) - len(answers)
    if silent:
        found = f"{silent} of {len(hosts)} nodes did not answer"
        return Finding("rendezvous", "missing", found, "fix the nodes above first")
    return Finding("rendezvous", "ok", f"{address} is reached by every node")


def _clocks(answers: Answers) -> Finding:
    """How far apart are the clocks?"""
    offsets = {host: a["offset_s"] for host, a in answers.items() if "offset_s" in a}
    if not offsets:
        return Finding("clocks", "note", "not compared", "fix the rendezvous above first")
    apart = max(offsets.values()) - min(offsets.values())
    within = 2 * max(answers[host]["within_s"] for host in offsets)
    found = f"{apart:.3g} s apart, within {within:.1g} s"
    if apart - within <= APART:
        return Finding("clocks", "ok", found)
    worst = max(offsets, key=lambda host: abs(offsets[host]))
    remedy = "ask the site to set the clocks by NTP (`chronyc tracking` shows a node's offset)"
    return Finding("clocks", "note", f"{found}; {worst} is {offsets[worst]:+.3g} s off", remedy)


def _cores(env: Mapping[str, str]) -> Finding:
    """How many cores does each rank have on the node with the fewest?"""
    where, cores = allocation.capacity(env), allocation.cpus_per_node(env)
    ranks = where.most if where else 1
    if not cores:
        return Finding("cores", "note", "Slurm does not say how many this job has on a node")
    if ranks <= cores:
        found = f"{cores} on a node, {cores // ranks} for each of {counted(ranks, 'rank')}"
        return Finding("cores", "ok", found)
    found = f"{ranks} ranks share {counted(cores, 'core')} of a node and take turns"
    return Finding("cores", "note", found, f"ask for more: --cpus-per-task={8 * ranks}")


def _collective(machine: Machine, hosts: Sequence[str]) -> Finding:
    """Do ranks on all nodes start and sum their numbers?"""
    ran = machine.ask_inside("nodes", SUMMING)
    facts = ran.answer()
    remedy = "see the log of a job, which names the rank; then check the network between the nodes"
    if facts is None:
        return Finding("collective", "missing", ran.last_line or "no answer", remedy)
    ranks = len(facts["sums"])
    wrong = [value for value in facts["sums"] if value != ranks * (ranks + 1) / 2]
    away = [host for host in hosts if host not in facts["nodes"]]
    if wrong or away:
        where = f"; no rank on {', '.join(away)}" if away else ""
        found = f"{counted(ranks, 'rank')} summed to {facts['sums']}{where}"
        return Finding("collective", "missing", found, remedy)
    each = ", ".join(f"{facts['nodes'].count(host)} on {host}" for host in hosts)
    return Finding("collective", "ok", f"ranks {each} summed in {facts['seconds']} s")


def table(answers: Answers, file: TextIO) -> None:
    """Print a line for each node."""
    head = ("node", "host", "python", "dtlib", "torch", "commit", "folder", "rendezvous", "clock")
    rows = [head]
    for host, answer in answers.items():
        clock = f"{answer['offset_s']:+.4f} s" if "offset_s" in answer else "unknown"
        reached = "no" if "error" in answer else "reached" if "offset_s" in answer else "not asked"
        own = [_short(name, answer[name]) for name in head[2:6]]
        seen = "not seen" if answer["folder"] else "seen"
        rows.append((host, answer["host"], *own, seen, reached, clock))
    print(aligned(rows, left=len(head)), end="\n\n", file=file)
