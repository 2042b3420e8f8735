"""Studies as tests need them: rows of a table from times, and the evidence that they make."""

from typing import Any

from dtlib.study.capstone.evidence import Evidence
from dtlib.training.record import COLUMNS

STRONG = {1: [0.040, 0.044, 0.042], 2: [0.030, 0.029, 0.035]}
WEAK = {1: [0.040, 0.041, 0.044], 2: [0.055, 0.053, 0.061]}


def rows(kind: str, times: dict[int, list[float]], **more: Any) -> list[dict[str, Any]]:
    """The rows of a study, from the seconds of a step by number of ranks."""
    found = []
    for n, each in times.items():
        for repeat, seconds in enumerate(each):
            batch = 8 * (n if kind == "weak" else 1)
            row = dict.fromkeys(COLUMNS) | {
                "study": kind, "task": "text", "model": "nano", "precision": "fp32", "nodes": 1,
                "strategy": "single" if n == 1 else "ddp", "gpus_per_node": 0, "world_size": n,
                "global_batch": batch, "micro_batch": batch // n, "accumulation": 1, "workers": 0,
                "repeat": repeat, "warmup_steps": 5, "timed_steps": 15, "step_time_s": seconds,
                "throughput": batch * 32 / seconds, "throughput_unit": "tokens/s", "loss": 3.75,
                "comm_share": 0.0 if n == 1 else 0.4, "data_share": 0.003, "seed": 0,
                "commit": "0123456789abcdef", "host": "laptop", "device": "cpu",
                "measured_or_simulated": "measured",
            }  # fmt: skip
            found.append(row | more)
    return found


def kept(what: str, measured: str, unit: str = "times", source: str = "measured", lesson="22"):
    """A row of my_runs.csv."""
    return {"lesson": lesson, "what": what, "predicted": "", "measured": measured, "unit": unit,
            "source": source}  # fmt: skip


def evidence(**more: Any) -> Evidence:
    """Two small studies of two ranks on a laptop."""
    settings = {"steps": 20, "optimizer": "adamw", "lr": 3e-3, "seed": 0, "parameters": 811520,
                "data": "grammar", "max_length": 32, "num_samples": 64, "threads": 1}  # fmt: skip
    own: dict[str, Any] = {
        "studies": {"strong": rows("strong", STRONG), "weak": rows("weak", WEAK)},
        "kept": [kept("gain of all levers that keep the numbers", "1.31")],
        "machine": "2 CPU cores (a processor)",
        "versions": {"dtlib": "0.1.0", "python": "3.11.7", "torch": "2.14.1"},
        "settings": {"strong": settings, "weak": settings},
        "shares": [
            {"study": kind, "world_size": 2, "repeat": repeat, "compute": 0.5 - repeat / 50,
             "communication": 0.4 + repeat / 50, "input": 0.02, "idle": 0.08}
            for kind in ("strong", "weak") for repeat in range(3)
        ],
        "commands": [f"dtlib study {kind} text --ranks 1,2 --repeats 3 --model nano --steps 20"
                     " --max-length 32 --global-batch 8 --num-samples 64"
                     for kind in ("strong", "weak")],
    }  # fmt: skip
    return Evidence(**own | more)
