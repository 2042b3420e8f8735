"""A disk that remembers what is durable, to see what a crash at any moment leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

OLD, NEW = "the old state", "the new state"


@dataclass
class Disk:
    """Files of one folder. What is written or renamed is durable only after its own fsync.

    Parameters
    ----------
    files
        What a program sees, by name.
    watched
        The file whose possible contents after a crash are noted after each act, in `moments`.
    """

    files: dict[str, str] = field(default_factory=dict)
    watched: str = "latest.pt"
    acts: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._synced = dict(self.files)  # content that has reached the disk, by name
        self._names = dict.fromkeys(self.files, True)
        self._renamed: list[tuple[str, str]] = []  # renames that a power cut may undo
        self.moments = [self.after_a_crash()]

    def write(self, name: str, data: str) -> None:
        """Make a file, or write over one; half of the data arrives before the other half."""
        for part in (data[: len(data) // 2], data):
            self.files[name] = part
            self._synced.pop(name, None)
            self._act("write", name)

    def fsync(self, name: str) -> None:
        """Wait until a file's content is on the disk.

        Raises
        ------
        FileNotFoundError
            No file has this name; `rename` and `remove` raise it, too.
        """
        self._find(name)
        self._synced[name] = self.files[name]
        self._act("fsync", name)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of a file that has this name.

        Raises
        ------
        OSError
            The new name lies in another folder, which is on another file system.
        """
        if old.rpartition("/")[0] != new.rpartition("/")[0]:
            raise OSError(18, "Invalid cross-device link")
        self._find(old)
        before = (self.files.get(new), new in self._synced and self._synced[new])
        self.files[new] = self.files.pop(old)
        durable = self._synced.pop(old, None)
        self._synced.pop(new, None)
        if durable is not None:
            self._synced[new] = durable
        self._renamed.append((new, before[1] or before[0] or ""))
        self._act("rename", new)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._find(name)
        del self.files[name]
        self._synced.pop(name, None)
        self._act("remove", name)

    def fsync_folder(self) -> None:
        """Wait until the folder's names are on the disk."""
        self._renamed.clear()
        self._act("fsync_folder")

    def _find(self, name: str) -> None:
        if name not in self.files:
            raise FileNotFoundError(2, "No such file or directory", name)

    def _act(self, *act: str) -> None:
        self.acts.append(act)
        self.moments.append(self.after_a_crash())

    def after_a_crash(self) -> set[str]:
        """Return what the file may hold when the power fails now; "" if it may be missing."""
        return set(self._may_hold(self.watched))

    def _may_hold(self, name: str) -> Iterator[str]:
        yield self.files.get(name, "")  # a killed process loses nothing that it has written
        if name in self.files and self._synced.get(name) != self.files[name]:
            yield self.files[name][: len(self.files[name]) // 2]
        for renamed, before in self._renamed:
            if renamed == name:
                yield before
