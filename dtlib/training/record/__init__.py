"""What a run records: its folder, its steps as JSON lines, its summary, one row of a table.

A run's folder holds

- `config.json`: every setting of the run;
- `metrics.jsonl`: one line per step with the numbers of the whole world, written by rank 0;
- `evaluations.jsonl`: one line per evaluation, in the same way;
- `rank0.jsonl`, `rank1.jsonl`, …: one line per step with that rank's own numbers;
- `rank0.log`, `rank1.log`, …: that rank's log, which starts with its process id;
- `summary.json`: the results and where they were measured, written once the run is done;
- `tensorboard/`, `wandb/`: the same numbers for these tools, on request (`loggers.py`);
- `requeue`: exists if a signal stopped the run, so that it should be resumed.

A number that was not measured is None here, and empty in a CSV file.
"""

from dtlib.measure.timing import StepTimer, memory_columns
from dtlib.training.record.files import RunFiles
from dtlib.training.record.folders import claimed, make_folder, new_folder
from dtlib.training.record.lines import read_lines, settings_of, to_json
from dtlib.training.record.loggers import check_loggers
from dtlib.training.record.origin import commit, origin
from dtlib.training.record.run import COLUMNS, Run

__all__ = [
    "COLUMNS", "Run", "RunFiles", "StepTimer", "check_loggers", "claimed", "commit", "make_folder",
    "memory_columns", "new_folder", "origin", "read_lines", "settings_of", "to_json",
]  # fmt: skip
