"""What a run leaves behind: its folder, its steps as JSON lines, its summary, one row of a table.

A run's folder holds

- `config.json`: every setting of the run;
- `metrics.jsonl`: one line a step with the numbers of the whole world, written by rank 0;
- `evaluations.jsonl`: one line an evaluation, the same way;
- `rank0.jsonl`, `rank1.jsonl`, …: one line a step with what that rank saw itself;
- `rank0.log`, `rank1.log`, …: sentences of that rank, its process id first;
- `summary.json`: the results, and on what they were measured; there once the run is done;
- `tensorboard/`, `wandb/`: the same numbers for these two, when asked for (`loggers.py`);
- `requeue`: there when a signal stopped the run, which should be resumed.

A number that was not measured is None here, and empty in a CSV file.
"""

from dtlib.measure.timing import StepTimer, memory_columns
from dtlib.training.record.files import RunFiles
from dtlib.training.record.folders import claimed, make_folder, new_folder
from dtlib.training.record.lines import read_lines, to_json
from dtlib.training.record.loggers import check_loggers
from dtlib.training.record.origin import commit, origin
from dtlib.training.record.run import COLUMNS, Run

__all__ = [
    "COLUMNS", "Run", "RunFiles", "StepTimer", "check_loggers", "claimed", "commit", "make_folder",
    "memory_columns", "new_folder", "origin", "read_lines", "to_json",
]  # fmt: skip
