"""Which tests run on the same process, where pytest-xdist shares them out.

xdist 3.8's own groups have no effect with pytest 9.2: it appends them to the names of tests, which
pytest takes from elsewhere, and so every single test would go to whichever process is free.
"""

import functools
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

# Of what these folders share, a machine has one: a Slurm at its ports, a website in build/.
TOGETHER = ("tests/slurm/", "tests/book/")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file together; those of a file that has some marked `spread`, each alone."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid, self.config.rootpath)


def group(nodeid: str, root: Path) -> str:
    """What a test shares its process with, by its name below the folder `root`."""
    path = nodeid.partition("::")[0]
    together = next((folder for folder in TOGETHER if path.startswith(folder)), None)
    return together or (nodeid if _is_spread(root / path) else path)


@functools.cache
def _is_spread(path: Path) -> bool:
    """Whether a file marks tests so; the process that shares them out knows names alone."""
    return "pytest.mark.spread" in path.read_text(encoding="utf-8")
