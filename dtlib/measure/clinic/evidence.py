"""The files of all ranks, sorted by what is in them and by whose they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, in_words, unusable
from dtlib.measure.clinic import dumps, logs, nodes
from dtlib.measure.clinic.dumps import Dump
from dtlib.measure.clinic.logs import Log, Raised
from dtlib.measure.clinic.stacks import main_thread, place
from dtlib.ranks.outcome import plain
from dtlib.ranks.where import Where

MAKE_GROUPS = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
UNRECORDED = ("monitored_barrier", *MAKE_GROUPS)
"""Calls in which ranks wait for each other, and which the flight recorder leaves out."""
CRASH = "crash_rank_"
"""How the recorder names the file in which Python says of which signal a rank died."""
_DUMP = re.compile(r"flight_rank_\d+")
MOST_RANKS = 2**17
_HEAD = re.compile(r"^# (\{.*\})$", re.M)
LARGEST = 512 * 2**20  # bytes; a dump of 2000 collectives has about 2 MB
CANNOT_READ = (ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError)


@dataclass
class Rank:
    """What the files say of one rank; `taken` is when, in seconds since 1970.

    `where` is the line that its main thread was in, `since` from when on it was seen to wait there,
    and `busy` how much CPU time it and its child processes used lately, in cores. `peer` is the
    rank at the other end of the message it waits for and `tag` that message's tag, `root` where a
    collective starts or ends, `members` the call's group. `made` counts the groups that it has made
    or begun. `ended` says how its program ended, and `final` that its dump was written after that;
    `dumped` is when it was written, if that is known. `asked` says that a signal made it write its
    stack, `crash` where it was when it died of one, and `died` when.
    """

    number: int
    dump: Dump | None = None
    taken: float | None = None
    where: Where | None = None
    since: float | None = None
    busy: float | None = None
    peer: int | None = None
    tag: int | None = None
    root: int | None = None
    members: tuple[int, ...] = ()
    made: int | None = None
    dumped: float | None = None
    ended: str = ""
    asked: bool = False
    crash: Where | None = None
    died: float | None = None
    final: bool = False
    log: Log = field(default_factory=Log)
    has_log: bool = False
    files: dict[str, Path] = field(default_factory=dict)


@dataclass
class Evidence:
    """All ranks that left something, how many there should be, and the members of each group.

    `unread` names, in words, what the files hold but was left out.
    """

    ranks: dict[int, Rank] = field(default_factory=dict)
    world_size: int = 0
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def rank(self, number: int) -> Rank:
        """Return what there is of a rank, so far nothing perhaps."""
        return self.ranks.setdefault(number, Rank(number))

    def members(self, group: str) -> tuple[int, ...]:
        """Return the ranks of a process group; where no file says them, those that used it."""
        if group in self.groups:
            return self.groups[group]
        if group == "0":  # torch's name of the default group
            return tuple(range(self.world_size))
        used = (r for r in self.ranks.values() if r.dump)
        return tuple(
            sorted(r.number for r in used if r.dump and any(c.group == group for c in r.dump.calls))
        )


def gather(paths: Iterable[Path], world_size: int | None = None) -> Evidence:
    """Read files, and folders with all that is in them.

    Parameters
    ----------
    paths
        Dumps, stacks and logs, of any number of ranks.
    world_size
        How many ranks there were, if no file says it.

    Raises
    ------
    BadInput
        When a file does not exist, cannot be read or says nothing about any rank, when two files
        are of the same kind and rank, when nothing tells the global ranks of a node's logs, or when
        there are more ranks than `world_size`.
    """
    found = Evidence(world_size=world_size or 0)
    files = dict(_files(paths))
    over = nodes.earlier_attempts(files)
    found.unread += [f"what {folder} holds of an earlier attempt" for folder in sorted(over)]
    files = {path: named for path, named in files.items() if path.parent.parent not in over}
    try:
        first = nodes.offsets(files, world_size)
    except OSError as error:
        raise unusable(error) from None
    for path, named in files.items():
        try:
            known = _read(path, nodes.rank_of(path, first), found)
            if not known and nodes.is_job(path):
                raise BadInput(
                    f"{path} is a job's output, and no line of it says of which rank it is; write"
                    " `srun --label …`, or give torchrun's folder of `--log-dir`."
                )
        except OSError as error:
            raise BadInput(f"{path} cannot be read: {in_words(error)}.") from None
        if not known and named:
            raise BadInput(
                f"{path} holds no flight record, no stack, no error and no checksum of a rank; give"
                " files whose names end in the rank's number, such as stack_rank_3.txt."
            )
    if not found.ranks:
        raise BadInput("there is nothing about any rank; `dtlib clinic --help` says how to get it.")
    for rank in found.ranks.values():
        if rank.crash:
            rank.where = rank.crash  # later than the recorder's last look
        if rank.asked and rank.ended.endswith("SIGABRT"):
            rank.ended = ""  # somebody asked faulthandler for its stack
    _check_ranks(found, world_size)
    sizes = (max(found.ranks) + 1, *map(len, found.groups.values()))
    found.world_size = max(found.world_size, *sizes)
    return found


def _check_ranks(found: Evidence, world_size: int | None) -> None:
    """Refuse a rank that the run cannot have had; raises `BadInput`."""
    highest = max(found.ranks)
    if world_size and highest >= world_size:
        raise BadInput(
            f"ranks is {world_size}, but a file is of rank {highest}; leave --ranks out."
        )
    if found.world_size and highest >= found.world_size:
        raise BadInput(
            f"the run had {found.world_size} ranks, but a file is of rank {highest}; leave that"
            " file out, or name it after its rank."
        )
    if highest >= MOST_RANKS:
        raise BadInput(
            f"a file or a line names rank {highest}, which no run has; name files after ranks."
        )


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file once, and whether it was named or lay in a folder."""
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            if not inside:
                raise BadInput(f"the folder {path} is empty; give one that has dumps or logs.")
            yield from ((file, False) for file in inside if not file.name.startswith("."))
        elif path.is_file():
            yield path, True
        else:
            raise BadInput(f"there is no file {path}; give dumps, stacks and logs of ranks.")


def _read(path: Path, number: int | None, found: Evidence) -> bool:
    """Add a file to the evidence; return whether it says anything."""
    if path.stat().st_size > LARGEST:
        raise BadInput(f"{path} has more than {LARGEST >> 20} MiB; give the end of this log.")
    raw = path.read_bytes()
    if path.name.startswith(CRASH) and not raw:
        return False  # it has not crashed
    if _DUMP.fullmatch(path.name) and raw.lstrip()[:1] != b"{":
        return _add_dump(path, number, raw, found)
    if dumps.looks_like_pickle(raw):
        return _add_dump(path, number, raw, found)
    if b"\0" in raw[:4096]:
        return False
    text = raw.decode("utf-8", "replace")
    if dumps.looks_like_json(text):
        return _add_dump(path, number, text, found)
    return _add_text(path, number, text, found)


def _add_dump(path: Path, number: int | None, content: bytes | str, found: Evidence) -> bool:
    try:
        read = dumps.read_pickle if isinstance(content, bytes) else dumps.read_json
        dump = read(content)  # type: ignore[arg-type]
    except CANNOT_READ as error:
        raise BadInput(
            f"{path} is no whole flight-recorder dump: {in_words(error)}; leave it out, and its"
            " rank counts as missing."
        ) from None
    if number is None:
        raise BadInput(f"{path} has no rank in its name; rename it to flight_rank_3, for rank 3.")
    rank = found.rank(number)
    _only_one(rank, "dump", path)
    rank.dump = dump
    rank.taken = rank.taken or path.stat().st_mtime
    found.groups.update(dump.groups)
    return True


def _only_one(rank: Rank, kind: str, path: Path) -> None:
    if kind in rank.files:
        raise BadInput(
            f"{rank.files[kind]} and {path} are both a {kind} of rank {rank.number}; leave only the"
            " one that you mean, and name files after the global rank (RANK), not the local one."
        )
    rank.files[kind] = path


def _add_text(path: Path, number: int | None, text: str, found: Evidence) -> bool:
    named = logs.named(text)  # torch knows the global rank; a job's output may end in any number
    if named:
        number = min(named) if len(named) == 1 else None
    elif not nodes.names_rank(path) and logs.labelled(text):
        number = None
    if logs.by_local_rank(text):
        text = logs.without_local(text)
        found.unread.append(f"the lines of {path} that begin with a local rank")
    ended = logs.exits(text)
    for rank, how in ended.items():
        found.rank(rank).ended = found.rank(rank).ended or how
    parts: dict[int | None, str] = dict(logs.split(text))
    if number is not None:
        parts = {number: "".join(parts.values())}
    known = bool(ended)
    for rank_number, part in parts.items():
        if rank_number is not None:
            known = _add_part(path, part, found.rank(rank_number), found) or known
    return known or number is not None


def _add_part(path: Path, text: str, rank: Rank, found: Evidence) -> bool:
    log, frames = logs.read(text), main_thread(text)
    if path.name.startswith(CRASH):
        if died := logs.crash(text):
            rank.ended, rank.crash = rank.ended or died, place(frames or [])
            rank.died = path.stat().st_mtime
        return bool(died)
    if frames is not None:
        rank.asked = rank.asked or logs.asked(text)
        _only_one(rank, "stack", path)
        rank.where = place(frames)
    if head := _HEAD.match(text):
        try:
            _add_head(json.loads(head[1]), rank, found)
        except CANNOT_READ as error:
            raise BadInput(f"{path} begins with a damaged line ({in_words(error)}).") from None
    else:
        _only_one(rank, f"log {path.name}", path)
        rank.has_log = True
    rank.log.raised += log.raised
    rank.log.checksums.update(log.checksums)
    rank.log.expired += log.expired
    return bool(frames or log.raised or log.checksums or log.expired)


def _add_head(head: dict[str, Any], rank: Rank, found: Evidence) -> None:
    """Add what the recorder's first line says; it knows the line better than a stack's text."""
    where = dict(head["where"])
    rank.peer, rank.tag = where.pop("peer", None), where.pop("tag", None)
    rank.root, rank.members = where.pop("root", None), tuple(where.pop("members", None) or ())
    rank.since, rank.busy, rank.made = head.get("since"), head.get("busy"), head.get("made")
    seen = Where(**where)
    rank.where = seen if seen.line else rank.where
    rank.taken = float(head["time"])
    rank.dumped = head.get("flight", rank.taken)
    rank.final = bool(head["ended"]) and rank.dumped == rank.taken
    ended = str(head["ended"])
    rank.ended = ended or rank.ended
    if ended == "returned":
        rank.where = None
    elif ended:
        error, _, message = ended.partition(": ")
        rank.log.raised.append(Raised(error, plain(message), seen))
    found.world_size = max(found.world_size, int(head["world_size"]))
    found.groups.update({name: tuple(members) for name, members in head["groups"].items()})
