"""Exercise 6.3: replace a file so that no crash, at no moment, costs the last good state."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

from ..disk import NEW, OLD, Disk

replace_file = solution("replace_file", globals())

# lines of the solution
WRITE, SYNC = 'disk.write(name + ".tmp", data)', 'disk.fsync(name + ".tmp")'
RENAME, FOLDER = 'disk.rename(name + ".tmp", name)', "disk.fsync_folder()"


def run(answer, name):
    """What the file may hold after a crash at each moment, and what the program did."""
    disk = Disk({name: OLD}, name)
    answer(disk, name, NEW)
    return [sorted(moment) for moment in disk.moments], disk.acts, sorted(disk.files), disk.files


def judge(got, name):
    """Whether the file is whole at each moment, and new at the end."""
    moments, _, files, held = got
    whole = all(set(moment) <= {OLD, NEW} for moment in moments)
    return whole and moments[-1] == [NEW] and files == [name] and held[name] == NEW


def did(got):
    return [" ".join(act) for act in got[1]]


def facts(got, name):
    moments, acts, files, held = got
    bad = [k for k, moment in enumerate(moments) if not set(moment) <= {OLD, NEW}]
    seen = sorted(set(moments[bad[0]]) - {OLD, NEW})[0] if bad else ""
    return {
        "after": " ".join(acts[bad[0] - 1]) if bad else "the last call",
        "holds": repr(seen) if seen else "nothing: it is missing", "files": ", ".join(files),
        "at_last": held.get(name, "nothing"), "count": len(acts),
    }  # fmt: skip


def in_place(got):
    return "write latest.pt" in did(got)


EXERCISE = Answer(
    replace_file,
    other="not_durable",
    run=run,
    judge=judge,
    cases=[
        (f"{name} holds the old state, and the new one replaces it", (name,))
        for name in ("latest.pt", "weights.pt")
    ],
    mistakes=[
        Mistake("literal", {RENAME: 'disk.rename(name + ".tmp", "latest.pt")'},
                when=lambda name: name != "latest.pt"),
        Mistake("nothing", lambda disk, name, data: name, when=lambda got: not got[1]),
        Mistake("direct", {WRITE: "disk.write(name, data)", SYNC: "disk.fsync(name)", RENAME: ""},
                when=lambda got: in_place(got) and "rename latest.pt" not in did(got)
                and "remove latest.pt" not in did(got)),
        Mistake("gap", {RENAME: f"disk.remove(name)\n    {RENAME}"},
                when=lambda got: any("" in moment for moment in got[0])),
        Mistake("written_again", {FOLDER: f"{FOLDER}\n    disk.write(name, data)"}, when=in_place),
        ("no_fsync", {SYNC: ""}),
        Mistake("late_fsync", {SYNC: "", FOLDER: f"disk.fsync(name)\n    {FOLDER}"},
                when=lambda got: "fsync latest.pt" in did(got)
                and not any(f"fsync {file}" in did(got) for file in ("latest.pt.tmp", "tmp"))),
        Mistake("no_rename", {RENAME: ""}, when=lambda got: "rename latest.pt" not in did(got)),
        ("no_folder_fsync", {FOLDER: ""}),
        ("folder_first", {RENAME: "later", FOLDER: RENAME, "later": FOLDER}),
        Mistake("elsewhere", {WRITE: 'disk.write("tmp/x", data)', SYNC: 'disk.fsync("tmp/x")',
                              RENAME: 'disk.rename("tmp/x", name)'},
                when=lambda error: error == "OSError"),
        Mistake("left_over", {FOLDER: f'{FOLDER}\n    disk.write("copy", data)'},
                when=lambda got: got[2] != ["latest.pt"]),
        Mistake("other_data", {WRITE: 'disk.write(name + ".tmp", data + "!")'},
                when=lambda got: got[3].get("latest.pt") != NEW),
        Mistake("half",
                when=lambda got: any(set(m) - {OLD, NEW} for m in got[0])),
        Mistake("not_durable",
                when=lambda got: got[0][-1] != [NEW]),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("moments of a crash at which the file was whole", len(got[0][0]), len(got[0][0]), ""),)
    ),
)  # fmt: skip
