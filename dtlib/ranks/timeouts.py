"""How long a rank waits for another before that is called a hang, in seconds.

`dist.join` gives the time to gloo or NCCL, `group.Group` keeps the launcher's clock by it, and
`outcome.blame` says who waited for whom. Whoever starts ranks may give another one.
"""

RUN = 60.0
"""`dtlib.launch`, `dtlib train`, and ranks that torchrun or srun started."""

CELL = 30.0
"""A cell `%%ranks` of a notebook."""

CHECK = 3.0
"""The check of an exercise."""

KNOWN_HANG = 1.0
"""A check, in the tests, of an answer that is known to hang."""
