"""One IPython session of `bench_ranks.py`: the first `%%ranks` of its life, and later ones."""

import json
import sys
import time

import all_reduce
import cloudpickle
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import dtlib
from dtlib.learn import magic


def cell_seconds(shell: InteractiveShell, ranks: int) -> float:
    """Run the cell as a notebook would, and say how long the answer took."""
    with capture_output() as shown:
        begin = time.perf_counter()
        result = shell.run_cell(f"%%ranks {ranks}\n{all_reduce.CELL}")
        took = time.perf_counter() - begin
    result.raise_error()
    everything = shown.stdout + "".join(str(one.data) for one in shown.outputs)
    answer = f"sum {ranks * (ranks + 1) / 2}"
    assert everything.count(answer) >= ranks, f"{answer!r} is missing from {everything!r}"
    return took


def launch_seconds(ranks: int) -> float:
    begin = time.perf_counter()
    sums = dtlib.launch(all_reduce.on_a_rank, ranks=ranks, device="cpu")
    took = time.perf_counter() - begin
    assert sums == [ranks * (ranks + 1) / 2] * ranks, sums
    return took


def main() -> None:
    request = json.loads(sys.argv[1])
    ranks = request["ranks"]
    # A rank is another process: what this script's neighbour defines travels by value.
    cloudpickle.register_pickle_by_value(all_reduce)
    shell = InteractiveShell.instance()
    magic.register(shell)
    first = cell_seconds(shell, ranks)
    warm = [cell_seconds(shell, ranks) for _ in range(request["calls"])]
    launch = [launch_seconds(ranks) for _ in range(request["calls"])]
    print(json.dumps({"first": first, "warm": warm, "launch": launch}), flush=True)


if __name__ == "__main__":
    main()
