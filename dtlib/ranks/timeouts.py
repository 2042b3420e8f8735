"""How many seconds a rank waits for another before the wait counts as a hang.

`dist.join` passes the time to gloo or NCCL, `group.Group` sets the launcher's clock by it, and
`outcome.blame` says which rank waited for which. A caller that starts ranks may give another time.
"""

RUN = 60.0
"""`dtlib.launch`, `dtlib train`, and ranks that torchrun or srun started."""

CELL = 30.0
"""A `%%ranks` cell of a notebook."""

CHECK = 3.0
"""The check of an exercise."""

KNOWN_HANG = 1.0
"""A check, in the tests, of an answer that is known to hang."""
