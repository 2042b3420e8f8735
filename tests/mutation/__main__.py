"""Count what the checks say of mutants: `python tests/mutation 07`.

python tests/mutation 07               every exercise of a lesson, and each survivor
python tests/mutation 07 tree_time     one exercise
python tests/mutation 07 --keep        … and write the counts into the room
python tests/mutation 07 --outcomes    change results, not texts: right ones in another type, and
                                       wrong ones that are near; what is printed needs a look
python tests/mutation --table          write the table of all lessons from what was kept

Exits with 1 when a survivor has no verdict in the room's bank/mutants.yaml, or when a verdict there
has no survivor.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWN = [str(ROOT), str(ROOT / "lessons_src"), str(ROOT / "tests"), str(ROOT / "tests" / "lessons")]
sys.path[:] = [*OWN, *(p for p in sys.path if Path(p or ".").resolve() != HERE)]
os.environ["PYTHONPATH"] = os.pathsep.join([*OWN, os.environ.get("PYTHONPATH", "")])


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("lesson", nargs="?")
    parser.add_argument("exercise", nargs="*")
    parser.add_argument("--keep", action="store_true", help="write the counts into the room")
    parser.add_argument("--table", action="store_true", help="write the table of all lessons")
    parser.add_argument("--outcomes", action="store_true", help="change results, not texts")
    parser.add_argument("--list", action="store_true", help="show the mutants and run none")
    parser.add_argument("--all", action="store_true", help="show what was refused, too")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        from mutation import trial

        number, exercise, first, end = given.worker
        trial.work(number, exercise, int(first), int(end))
        return 0
    if given.table:
        from mutation import record

        record.TABLE.write_text(record.table())
        return 0
    if given.lesson is None:
        parser.error("name a lesson, such as 07, or --table")
    return lesson(given)


def lesson(given: argparse.Namespace) -> int:
    """Count the exercises of a lesson; 1 when a verdict is missing or stale."""
    from dtlib.learn import ladder, source
    from mutation import outcomes, record, trial
    from mutation.mutants import mutants_of

    one = source.find(given.lesson)
    told, counts, open_ = record.verdicts(one), {}, 0
    for exercise in given.exercise or one.sidecar["mistakes"]:
        if given.list:
            for mutant in mutants_of(one, ladder.find_exercise(one, exercise)):
                print(f"{exercise}  {mutant.name}")
            continue
        if given.outcomes:
            found = list(outcomes.tried(one.number, exercise))
            print(f"{one.number} {exercise}: {len(found)} changed results")
            print("".join(f"{line}\n" for line in outcomes.faults(found)), end="", flush=True)
            continue
        start = time.monotonic()
        findings = trial.try_exercise(one.number, exercise)
        seconds = time.monotonic() - start
        counts[exercise] = record.count(one, exercise, findings, seconds)
        mine = told.get(exercise, {})
        open_ += report(one, exercise, findings, mine, counts[exercise], given.all)
        print(f"   {seconds:.0f} s", flush=True)
    if given.keep:
        record.keep(one, counts)
    return 1 if open_ else 0


def report(one, exercise, findings, told, count, everything) -> int:
    """Print what became of the mutants; returns how many verdicts are missing or stale."""
    print(
        f"{one.number} {exercise}: {count['mutants']} mutants, {count['refused']} refused"
        f" ({count['specific']} by a sentence of their own), {len(count['survivors'])} accepted"
    )
    print("   " + json.dumps(count["keys"]))
    open_ = 0
    for finding in findings:
        name = finding.mutant.name
        if everything and not finding.survived:
            print(f"   [{finding.key}] {name}")
        if finding.survived and name not in told:
            open_ += 1
            print(f"   NO VERDICT  {name}")
        elif finding.survived:
            print(f"   right       {name}")
    for name in told:
        if name not in count["survivors"]:
            open_ += 1
            print(f"   NO SUCH SURVIVOR, though it has a verdict  {name}")
    return open_


if __name__ == "__main__":
    sys.exit(main())
