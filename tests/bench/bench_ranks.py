"""How long four ranks take to answer: `%%ranks 4`, `dtlib.launch`, and a fresh torchrun.

    python tests/bench/bench_ranks.py [--ranks 4] [--repeats 5] [--quick]

Each repeat is a fresh IPython session (its first cell, then later ones, then `dtlib.launch`) and
then a torchrun of the same all-reduce. Wall seconds, from asking to having the answer.
"""

import argparse
import json
import subprocess
import sys
import time

from table import HERE, contestant, interleave, run_fresh, show, spread

ROWS = {"first": "%%ranks, first cell of a session", "warm": "%%ranks, later cells",
        "launch": "dtlib.launch, same session",
        "torchrun": "torchrun, fresh each time"}  # fmt: skip


def torchrun(ranks: int, timeout: float) -> float:
    """Wall seconds of one torchrun; it raises where a rank fails."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
               str(ranks), str(HERE / "all_reduce.py")]  # fmt: skip
    begin = time.perf_counter()
    # torchrun's agent ends its ranks when it is told to stop, hence no SIGKILL at first.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            _, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(f"torchrun exited {process.returncode}:\n{errors.decode()[-3000:]}")
    return time.perf_counter() - begin


def measure(options: argparse.Namespace) -> dict[str, list[float]]:
    """Sessions and torchruns in turns; every call of a kind is one number."""

    def run(name: str) -> dict:
        if name == "torchrun":
            return {"torchrun": [torchrun(options.ranks, options.timeout)]}
        command = contestant("ranks_session.py", ranks=options.ranks, calls=options.calls)
        return run_fresh(command, timeout=options.timeout)

    results = interleave(["session", "torchrun"], options.repeats, run)
    sessions = results["session"]
    return {
        "first": [one["first"] for one in sessions],
        "warm": [took for one in sessions for took in one["warm"]],
        "launch": [took for one in sessions for took in one["launch"]],
        "torchrun": [one["torchrun"][0] for one in results["torchrun"]],
    }


def print_table(seconds: dict[str, list[float]], options: argparse.Namespace) -> None:
    """Print one row for each way to get an answer."""
    show(
        f"An all-reduce of 4 MB on {options.ranks} gloo ranks, from asking to the answer",
        [f"{options.repeats} sessions and torchruns in turns; median (min–max)"],
        ["way", "wall seconds", "calls"],
        [[ROWS[name], spread(took, 2), len(took)] for name, took in seconds.items()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--calls", type=int, default=5, help="warm calls of a session, of a kind")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for one session")
    parser.add_argument("--quick", action="store_true", help="one session: does it work?")
    parser.add_argument("--json", action="store_true", help="the seconds as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.calls = 1, 2
    seconds = measure(options)
    print_table(seconds, options)
    if options.json:
        print(json.dumps(seconds))


if __name__ == "__main__":
    main()
