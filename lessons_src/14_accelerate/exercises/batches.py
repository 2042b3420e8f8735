"""Exercise 14.2: how many samples a step of the optimizer has, and how many steps an epoch has.

This lesson's tests compare the solution with Accelerate's own loaders, on ranks.
"""

from typing import NamedTuple

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import several
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed


class Setting(NamedTuple):
    """What a script sets: samples, batch_size, processes, accumulation, split_batches."""

    samples: int
    batch_size: int
    num_processes: int
    accumulation: int
    split_batches: bool

    def __str__(self) -> str:
        ranks = f"{self.num_processes} process{'es' * (self.num_processes > 1)}"
        return (
            f"{self.samples} samples, batch_size {self.batch_size}, {ranks}, "
            f"accumulation {self.accumulation}, split_batches={self.split_batches}"
        )


# One thing at a time, then together. The fifth to seventh have a tail in the loader, in the seventh
# the processes don't divide the samples. The eighth has one in the last group, the ninth and tenth
# accumulate with a tail in the loader, and the last has too few samples for one step.
SETTINGS = (
    Setting(54, 6, 1, 1, False),
    Setting(54, 6, 3, 1, False),
    Setting(60, 12, 3, 1, True),
    Setting(48, 8, 1, 2, False),
    Setting(44, 8, 1, 1, False),
    Setting(100, 8, 4, 1, False),
    Setting(33, 8, 4, 1, False),
    Setting(40, 8, 1, 2, False),
    Setting(1000, 8, 4, 4, False),
    Setting(1000, 32, 4, 4, True),
    Setting(20, 8, 4, 1, False),
)
# parts of the solution
TOGETHER, ROUNDS = "else batch_size * num_processes", "-(-samples // together)"
STEPS = "-(-rounds // accumulation)"

batch_and_steps = solution("batch_and_steps", globals())


def read(value, samples, batch_size, num_processes, accumulation, split_batches):
    """The samples in a step if those are wrong, otherwise the steps."""
    batch, steps = several(2, "not_a_pair")(value)
    right, _ = batch_and_steps(samples, batch_size, num_processes, accumulation, split_batches)
    return {"batch": batch} if batch != right else {"steps": steps}


def facts(got, samples, batch_size, num_processes, accumulation, split_batches):
    s = Setting(samples, batch_size, num_processes, accumulation, split_batches)
    together = batch_and_steps(*s._replace(accumulation=1))[0]
    (number,) = got.values()
    return {
        "n": num_processes, "k": accumulation, "together": together, "got": f"{number:g}",
        "want": batch_and_steps(*s)["steps" in got], "rounds": -(-samples // together),
    }  # fmt: skip


EXERCISE = Answer(
    batch_and_steps,
    other="steps",
    read=read,
    same=0.0,
    cases=[(str(setting), setting) for setting in SETTINGS],
    mistakes=[
        ("split", {"batch_size if split_batches else": ""}),
        ("share", {"batch_size if": "batch_size // num_processes if"}),
        ("one_process", {TOGETHER: "else batch_size"}),
        ("divided", {TOGETHER: "else batch_size // num_processes"}),
        ("no_accumulation", {"together * accumulation": "together"}),
        ("swapped", lambda *setting: batch_and_steps(*setting)[::-1]),
        ("all_samples", {"together * accumulation": "min(samples, together * accumulation)"}),
        Mistake("batch", when=lambda got: "batch" in got),
        ("steps_of_one", {ROUNDS: "-(-samples // batch_size)"}),
        ("micro_steps", {STEPS: "rounds"}),
        ("one_more", {STEPS: "rounds // accumulation + 1"}),
        ("group_dropped", {STEPS: "rounds // accumulation"}),
        ("batch_dropped", {ROUNDS: "samples // together"}),
        ("batch_dropped", {ROUNDS: "samples // together", STEPS: "rounds // accumulation"}),
        (
            "batch_dropped",
            {ROUNDS: "-(-(samples // num_processes) // max(1, together // num_processes))"},
        ),
        ("part_of_a_step", {ROUNDS: "samples / together", STEPS: "rounds / accumulation"}),
    ],
    facts=facts,
    passed=lambda got, want: Passed(
        ((f"steps for {SETTINGS[-2]}", f"{got[-2]['steps']:g}", f"{want[-2]['steps']:g}", ""),)
    ),
)
