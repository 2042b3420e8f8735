"""Run a study, or one part of it, and write its table and its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.config.belonging import refuse_without_effect
from dtlib.config.files import writable_folder, write_csv
from dtlib.config.plan import BatchPlan
from dtlib.errors import BadInput, DtlibError, Stopped, Unavailable, counted
from dtlib.ranks.processes import terminate_as_interrupt
from dtlib.study import drawing, family, reading, rows, strategies, tables
from dtlib.study.family import Outcome, Planned
from dtlib.training import start
from dtlib.training.instruments import untimed_steps
from dtlib.training.record import Run

DIFFERENCES_CSV = "differences.csv"
ERRORS = {"refused": BadInput, "unavailable": Unavailable}


def study_strategies(
    settings: Mapping[str, Any], ranks: Sequence[int], wanted: Sequence[str], out: Path
) -> int:
    """Run a study of strategies, print its tables, and write its CSV files and its figure.

    `settings` are those of `RunConfig` that all runs share; an empty `wanted` means all strategies.
    Returns the exit code, 0.

    Raises
    ------
    BadInput, Unavailable
        For settings that no run can have, a folder that holds a study with other settings, or a
        machine that can do none of the runs.
    DtlibError
        When runs failed; the tables and figures of the others have been written by then.
    Stopped
        When a signal stopped a run; the same call resumes it.
    """
    planned = list(strategies.plans(settings, ranks, wanted))
    refuse_without_effect(vars(planned[0].config), settings)
    done = family.finished(out, [one.name for one in planned])
    _refuse_all([one.config for one in planned if one.name not in done], begun=bool(done))
    writable_folder(out)
    family.open_folder(out, strategies.KIND, settings, [one.name for one in planned])
    outcomes = _carried_out(out, planned, lambda run: f"loss {run.loss:.6f}")
    table, named = rows.tidy(outcomes, strategies.KIND), rows.differences(outcomes)
    write_csv(out / f"{strategies.KIND}.csv", [*rows.COLUMNS, *rows.LEDGER], table)
    write_csv(out / DIFFERENCES_CSV, rows.DIFFERENCES, named)
    print("", reading.comparison(named), sep="\n")
    show(out)
    _refuse([outcome for outcome in outcomes if outcome.status == "failed"], "failed")
    return 0


def study_timed(
    kind: str, settings: Mapping[str, Any], planned: Sequence[Planned], out: Path,
    part: int | None = None,
) -> int:  # fmt: skip
    """Run a timed study, or one part of it, and write the table and figures of the finished runs.

    `settings` must not change when the study is continued, `planned` are all of its runs, and
    `part` is the run to do, counted from 0 (default: all). The parts may share the folder `out`.
    Returns and raises the same as `study_strategies`.
    """
    if part is not None and part >= len(planned):
        print(f"There is no part {part} among {counted(len(planned), 'run')}. Nothing to do.")
        return 0
    refuse_first([one.config for one in planned], settings)
    writable_folder(out)
    names = [one.name for one in planned]
    family.open_folder(out, kind, settings, names)
    try:
        outcomes = _carried_out(out, planned if part is None else [planned[part]], _time_of_step)
    finally:  # a signal must not cost the table of what is done
        collect(kind, out)
    _refuse([outcome for outcome in outcomes if outcome.status != "done"], "not done")
    return 0


def refuse_first(configs: Sequence[RunConfig], settings: Mapping[str, Any]) -> None:
    """Refuse, before anything starts, runs that would fail or show nothing in the end.

    Raises `BadInput` or `Unavailable` for a run that can't start, or that would have no timed step.
    """
    plans: dict[RunConfig, BatchPlan] = {}
    for config in dict.fromkeys(configs):
        refuse_without_effect(vars(config), settings)
        plans[config], _ = start.check(config)
        left_out = untimed_steps(config)
        if config.steps is not None and config.steps <= left_out:
            raise BadInput(
                f"--steps {config.steps} leaves no step to time: the first {left_out} are left out"
                f" of the timing; give at least {left_out + 1}."
            )
    start.check_data(plans.items())


def _refuse_all(configs: Sequence[RunConfig], begun: bool) -> None:
    """Refuse, before anything starts, runs if none of them can start or their data are missing.

    Where a study has `begun`, some could: those that are left may be what this machine never does.
    """
    plans: dict[RunConfig, BatchPlan] = {}
    refusals: list[DtlibError] = []
    for config in configs:
        try:
            plans[config], _ = start.check(config)
        except (BadInput, Unavailable) as error:
            refusals.append(error)
    if refusals and len(refusals) == len(configs) and not begun:
        raise refusals[0]
    start.check_data(plans.items())


def collect(kind: str, out: Path) -> None:
    """Write a study's table and figures from the runs that are done, and print what they show.

    Other parts may end at the same time and also write a table, so the last one to write must have
    seen all runs. Therefore the finished runs are listed again *after* writing, and the table is
    written again if there are more. A run that ends after that is written later by its own part.
    """
    names = family.read_folder(out)["runs"]
    if not family.finished(out, names):
        return
    seen: set[str] | None = None
    while (runs := family.finished(out, names)).keys() != seen:
        seen = set(runs)
        write_csv(out / f"{kind}.csv", tables.COLUMNS, tables.of_runs(kind, runs))
        text, written = drawing.draw(out / f"{kind}.csv")
    _print(out / f"{kind}.csv", text, written)


def show(place: Path) -> int:
    """Draw a study's figures again from its CSV file, and print what they show."""
    _print(drawing.find(place), *drawing.draw(place))
    return 0


def _print(table: Path, text: str, written: Sequence[Path]) -> None:
    print("", text, "", sep="\n")
    print("Files:", ", ".join(map(str, [table, *written])), "and the tables as text", flush=True)


def _refuse(lost: Sequence[Outcome], what: str) -> None:
    """Raise an error that names the lost runs, if any."""
    if lost:
        names = ", ".join(outcome.planned.name for outcome in lost)
        raise DtlibError(
            f"{counted(len(lost), 'run')} {what}: {names}; the reasons are printed above."
        )


def _time_of_step(run: Run) -> str:
    seconds = run.summary["step_time_s"]
    return f"{1e3 * seconds:.1f} ms a step" if seconds else ""


def _carried_out(
    out: Path, planned: Sequence[Planned], said: Callable[[Run], str]
) -> list[Outcome]:
    """Do the runs and print each outcome; raise the common error if none of them could start."""
    outcomes: list[Outcome] = []
    try:
        with terminate_as_interrupt():
            for one in family.carry_out(out, planned):
                outcomes.append(one)
                words = said(one.run) if one.run else one.because
                print(f"{one.planned.name}: {one.status}, {words}", flush=True)
    except (Stopped, KeyboardInterrupt) as error:
        names = [one.name for one in planned]
        done = [*family.finished(out, names)]
        raise Stopped(
            f"stopped by a signal: {len(done)} of {counted(len(names), 'run')} in {out} done"
            f" ({', '.join(done) or 'none yet'}); start the same command again to do the others."
        ) from error
    statuses = {outcome.status for outcome in outcomes}
    if len(statuses) == 1 and statuses <= ERRORS.keys():  # the cause is the settings or the machine
        raise ERRORS[statuses.pop()](outcomes[0].because)
    return outcomes
