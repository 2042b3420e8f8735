"""How the process of a rank ends when its work is done."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from dtlib.ranks.dist import in_world


def end_rank(code: int) -> int:
    """Return `code`; a rank that loaded DeepSpeed ends here, with `code`.

    DeepSpeed's objects keep the process group's threads alive after the group has been destroyed.
    While Python shuts down, such a thread sometimes aborts the process, with "terminate called
    without an active exception" and exit code -6: about one finished run in a hundred on gloo.
    What Python would do at an ordinary exit is therefore done first, and its shutdown is skipped.
    """
    if not (in_world() and "deepspeed" in sys.modules):
        return code
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
