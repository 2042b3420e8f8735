"""Exercise 6.3: replace a file so that no crash, at no moment, costs the last good state."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..disk import NEW, OLD, Disk

replace_file = solution("replace_file", globals())

THIRD = "another state"
# lines of the solution
WRITE, SYNC = 'disk.write(name + ".tmp", data)', 'disk.fsync(name + ".tmp")'
RENAME, FOLDER = 'disk.rename(name + ".tmp", name)', "disk.fsync_folder()"


def run(answer, name, data):
    """What the file may hold after a crash at each moment, and what the program did."""
    disk = Disk({name: OLD}, name)
    try:
        answer(disk, name, data)
    except FileNotFoundError as error:
        after = f'after "{" ".join(disk.acts[-1])}"' if disk.acts else "in your first call"
        there = ", ".join(sorted(disk.files)) or "no file at all"
        raise Wrong("no_such_file", file=error.filename, there=there, after=after) from None
    return [sorted(moment) for moment in disk.moments], disk.acts, sorted(disk.files), disk.files


def judge(got, name, data):
    """Whether the file is whole at each moment, and new at the end."""
    moments, _, files, held = got
    whole = all(set(moment) <= {OLD, data} for moment in moments)
    return whole and moments[-1] == [data] and files == [name] and held[name] == data


def did(got):
    return [" ".join(act) for act in got[1]]


def place(got, *act):
    """At which act the program did this for the first time, or infinity."""
    return got[1].index(act) if act in got[1] else math.inf


def torn(got, data):
    """Whether a crash may leave anything but one of the two states."""
    return any(set(moment) - {OLD, data} for moment in got[0])


def facts(got, name, data):
    moments, acts, files, held = got
    bad = [k for k, moment in enumerate(moments) if not set(moment) <= {OLD, data}]
    seen = sorted(set(moments[bad[0]]) - {OLD, data})[0] if bad else ""
    return {
        "after": " ".join(acts[bad[0] - 1]) if bad else "the last call",
        "holds": repr(seen) if seen else "nothing: it is missing", "files": ", ".join(files),
        "at_last": held.get(name, "nothing"), "count": len(acts),
    }  # fmt: skip


def in_place(got, name):
    """Whether it writes to the file itself, before another one is renamed to it or without that."""
    return place(got, "write", name) < place(got, "rename", name)


EXERCISE = Answer(
    replace_file,
    other="not_durable",
    run=run,
    judge=judge,
    cases=[
        (f"{name} holds the old state, and {data} replaces it", (name, data))
        for name, data in (("latest.pt", NEW), ("latest.pt", THIRD), ("weights.pt", NEW))
    ],
    mistakes=[
        Mistake("literal", {RENAME: 'disk.rename(name + ".tmp", "latest.pt")'},
                when=lambda name: name != "latest.pt"),
        Mistake("nothing", lambda disk, name, data: name, when=lambda got: not got[1]),
        Mistake("direct", {WRITE: "disk.write(name, data)", SYNC: "disk.fsync(name)", RENAME: ""},
                when=lambda got, name: in_place(got, name) and f"remove {name}" not in did(got)),
        Mistake("gap", {RENAME: f"disk.remove(name)\n    {RENAME}"},
                when=lambda got: any("" in moment for moment in got[0])),
        Mistake("written_again", {FOLDER: f"{FOLDER}\n    disk.write(name, data)"},
                when=lambda got, name: place(got, "write", name) < math.inf),
        ("no_fsync", {SYNC: ""}),
        Mistake("old_fsync", {SYNC: "disk.fsync(name)"},
                when=lambda got, name, data: torn(got, data)
                and place(got, "fsync", name) < place(got, "rename", name) < math.inf),
        Mistake("late_fsync", {SYNC: "", FOLDER: f"disk.fsync(name)\n    {FOLDER}"},
                when=lambda got, name, data: torn(got, data)
                and place(got, "rename", name) < place(got, "fsync", name) < math.inf),
        Mistake("no_rename", {RENAME: ""}, when=lambda got: "rename latest.pt" not in did(got)),
        ("no_folder_fsync", {FOLDER: ""}),
        ("folder_first", {RENAME: "later", FOLDER: RENAME, "later": FOLDER}),
        Mistake("elsewhere", {WRITE: 'disk.write("tmp/x", data)', SYNC: 'disk.fsync("tmp/x")',
                              RENAME: 'disk.rename("tmp/x", name)'},
                when=lambda error: error == "OSError"),
        Mistake("left_over", {FOLDER: f'{FOLDER}\n    disk.write("copy", data)'},
                when=lambda got: got[2] != ["latest.pt"]),
        Mistake("other_data", {WRITE: 'disk.write(name + ".tmp", data + "!")'},
                when=lambda got, data: got[3].get("latest.pt") != data),
        Mistake("half", when=torn),
        Mistake("not_durable", when=lambda got, data: got[0][-1] != [data]),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("moments of a crash at which the file was whole", len(got[0][0]), len(got[0][0]), ""),)
    ),
)  # fmt: skip
