"""More answers to `survive`, for the tests alone: what the lines of each script are."""

from ..exercises.limit import EXERCISE

LINES = EXERCISE.reference().splitlines(keepends=True)
START, SET, LOOP, REQUEUE = ("".join(LINES[a:b]) for a, b in ((0, 3), (3, 4), (4, 10), (10, 12)))
EXIT, WHOLE = 'exit "$code"', "".join(LINES)


def prints_it():
    print('"$@" & wait')


def edit(*changes):
    """The course's own script with some words exchanged."""
    text = WHOLE
    for old, new in changes:
        text = text.replace(old, new)
    return text


SURVIVES = (
    ("syntax", f'{START}if [ "$?" = 75 ]; then scontrol requeue'),
    ("never_trained", "train.sh --all\nexit 0"),
    ("left_alone", '"$@" &\nexit 0'),
    ("for_ever", edit((REQUEUE, "scontrol requeue $SLURM_JOB_ID"))),
    ("code_of_success", edit((REQUEUE, '[ "$code" = 75 ] && scontrol requeue "$SLURM_JOB_ID"'))),
    ("repeats_failure",
     edit((REQUEUE, '[ "$code" = 0 ] || scontrol requeue $SLURM_JOB_ID; exit $code'))),
    ("code_lost", edit((EXIT, 'echo "ended with $code"'))),
    ("other_code", edit((EXIT, '[ "$code" = 0 ]'))),
    ("killed_code", edit((REQUEUE, f'[ "$code" -lt 128 ] || code=1\n{REQUEUE}'))),
    # a fixed time, however long the checkpoint takes
    ("requeued_early", START + """trap '
kill -USR1 "$training"; sleep 1; scontrol requeue "$SLURM_JOB_ID"; exit 75' USR1
wait "$training"
"""),
    ("too_late", f"trap 'kill -USR1 $!' USR1\n\"$@\"\ncode=$?\n{REQUEUE}"),
    ("no_number", f'trap "kill -USR1 $!" USR1\n{START}{LOOP}{REQUEUE}'),
    ("misread", edit((REQUEUE, REQUEUE.replace("[ ", "[")))),
    ("misread", edit(('[ "$code" = 75 ]', "$code == 75"))),
    ("misread", edit(("=$!", " = $!"))),
    ("script_died", f'{START}wait "$training"; code=$?\n{REQUEUE}'),
    ("not_told", edit(("-USR1", "-TERM"))),
    ("did_not_wait", edit(("told=yes;", ""), (LOOP, "wait $training; code=$?\n"))),
    # right for one signal, but a second one cuts the second wait short
    ("did_not_wait", edit((LOOP, 'wait "$training"; wait "$training"; code=$?\n'))),
    ("code_of_wait", edit(("$training\"'", '$training"; wait "$training"\''),
                          (LOOP, "wait $training; code=$?\n"))),
    ("requeued_early", edit(("told=yes;", 'told=yes; scontrol requeue "$SLURM_JOB_ID";'),
                            (REQUEUE, EXIT))),
    ("not_requeued", edit((REQUEUE, EXIT))),
    ("code_after", edit((EXIT, '[ "$code" != 75 ] || exit 0; exit "$code"'))),
    ("told_is_not_75", edit(('[ "$told" = yes ] || break', '[ "$told" = yes ] || break; was=yes'),
                            ('[ "$code" = 75 ]', '[ "$was" = yes ]'))),
    # whoever was told requeues, whatever the training's code is
    ("told_is_not_75", """
trap 'kill -USR1 $t; wait $t; code=$?; scontrol requeue $SLURM_JOB_ID; exit 75' USR1
"$@" & t=$!
wait $t
"""),
    ("which_job", edit((' "$SLURM_JOB_ID"', ""))),
    ("twice", edit((REQUEUE, f'[ "$code" != 75 ] || scontrol requeue "$SLURM_JOB_ID"\n{REQUEUE}'))),
)  # fmt: skip
# These take seconds, so that one test of the room gives them less time.
ENDLESS = {
    "never_ends": edit((LOOP, """
code=200
while [ "$code" -gt 128 ]; do
  wait "$training"; code=$?; [ $code != 127 ] || code=200; sleep 0.05
done
""")),
    "never_got_there": f"sleep 30\n{WHOLE}",
}  # fmt: skip
RARE = set(ENDLESS)
RIGHT = (
    edit((LOOP, 'while kill -0 "$training" 2>/dev/null; do wait "$training"; code=$?; done\n')),
    """
pass_on() { kill -USR1 "$child"; signalled=1; }
trap pass_on SIGUSR1
"$@" &
child=$!
signalled=
wait $child; code=$?
while [ -n "$signalled" ]; do signalled=; wait $child; code=$?; done
case $code in 75) scontrol requeue $SLURM_JOB_ID;; esac
exit $code
""",
    edit(('"$@" &', 'srun "$@" &')),
    "set -e\n" + edit((LOOP, """
code=0
wait "$training" || code=$?
while [ "$code" -gt 128 ] && kill -0 "$training" 2>/dev/null; do
  code=0
  wait "$training" || code=$?
done
"""), ("SLURM_JOB_ID", "SLURM_JOBID")),
    # noisy, but right
    edit((LOOP, 'while kill -0 "$training"; do wait "$training"; code=$?; done\n')),
)  # fmt: skip

ALSO_WRONG = [
    ("none", prints_it),
    ("not_text", lambda: ('"$@" &', "wait")),
    *((key, lambda text=text: text) for key, text in SURVIVES),
]
ALSO_RIGHT = [lambda text=text: text for text in RIGHT]
