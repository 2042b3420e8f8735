"""More answers to `replace_file`, for the tests alone."""

from ..disk import NEW
from ..exercises.atomic import FOLDER, RENAME, SYNC, WRITE


def another_name(disk, name, data):
    disk.write("new", data)
    disk.fsync("new")
    disk.fsync_folder()
    disk.rename("new", name)
    disk.fsync_folder()


def with_a_backup(disk, name, data):
    disk.rename(name, "backup")
    disk.write("new", data)
    disk.fsync("new")
    disk.rename("new", name)
    disk.remove("backup")
    disk.fsync_folder()


def over_it(disk, name, data):
    disk.write(name, data)
    disk.fsync(name)
    disk.fsync_folder()


def fsync_at_last(disk, name, data):
    disk.write("new", data)
    disk.rename("new", name)
    disk.fsync_folder()
    disk.fsync(name)


def twice_renamed(disk, name, data):
    disk.write("a", data)
    disk.fsync("a")
    disk.rename("a", "b")
    disk.rename("b", name)
    disk.fsync_folder()


def synced_twice(disk, name, data):
    disk.write("a", data)
    disk.fsync("a")
    disk.rename("a", name)
    disk.fsync(name)


def under_its_own_name(disk, name, data):
    disk.write(name, data)
    disk.fsync(name)
    disk.rename(name, name)
    disk.fsync_folder()


def of_the_old_file(disk, name, data):
    disk.write("tmp", data)
    disk.fsync(name)
    disk.rename("tmp", name)
    disk.fsync_folder()


ALSO_WRONG = [
    ("old_fsync", of_the_old_file),
    ("not_durable", synced_twice),
    ("direct", under_its_own_name),
    ("other_data", {WRITE: f'disk.write(name + ".tmp", {NEW!r})'}),
    ("no_such_file", {FOLDER: f'{FOLDER}\n    disk.remove(name + ".tmp")'}),
    ("no_such_file", {FOLDER: f"{FOLDER}\n    {SYNC}"}),
    ("no_such_file", {WRITE: "later", SYNC: WRITE, "later": SYNC}),
    ("no_such_file", {RENAME: 'disk.rename("temp", name)'}),
    ("direct", over_it),
    ("direct", lambda disk, name, data: disk.write(name, data)),
    ("gap", with_a_backup),
    ("gap", lambda disk, name, data: disk.remove(name)),
    ("no_rename", lambda disk, name, data: disk.write("other", data)),
    ("half", lambda disk, name, data: (disk.write("t", data), disk.rename("t", name))),
    ("not_durable", lambda disk, name, data: (
        disk.write("t", data), disk.fsync("t"), disk.rename("t", name))),
    ("late_fsync", fsync_at_last),
    ("elsewhere", {WRITE: WRITE.replace("name", '"/tmp/" + name'),
                   SYNC: SYNC.replace("name", '"/tmp/" + name'),
                   RENAME: 'disk.rename("/tmp/" + name + ".tmp", name)'}),
    ("raised", lambda disk, name, data: disk.nothing()),
]  # fmt: skip
ALSO_RIGHT = [another_name, twice_renamed]
