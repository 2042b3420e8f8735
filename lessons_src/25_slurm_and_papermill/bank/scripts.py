"""Answers to lesson 25's exercises in bash: scripts to be refused, and scripts to be accepted."""

TORCHRUN = """torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID \\
  --nproc-per-node=$SLURM_GPUS_ON_NODE"""
MEET = '--master-addr="$0" --master-port=29500'
THERE = "srun --ntasks-per-node=1 bash -c"


def script(name, text):
    """An answer that returns this text."""

    def answer():
        return text

    answer.__name__ = name
    return answer


def started_by_hand(name, inside, after='"$(hostname)" "$@"', srun=THERE):
    return script(name, f"{srun} '{inside}' {after}")


def returns_nothing():
    print("srun torchrun")


def a_list():
    return ["srun", "torchrun", "$@"]


def prints_it():
    print('"$@" & wait')


def in_pieces():
    return ('"$@" &', "wait")


STARTS = [
    ("none", returns_nothing),
    ("not_text", a_list),
    ("syntax", script("open_quote", f"{THERE} 'torchrun \"$@\"")),
    ("hangs", script("waits_for_ever", "while true; do sleep 0.1; done")),
    ("nothing", script("mpirun", 'mpirun -n "$SLURM_NNODES" torchrun "$@"')),
    ("no_torchrun", script("plain_python", 'srun python "$@"')),
    ("too_many", started_by_hand("one_torchrun_per_gpu", f'{TORCHRUN} {MEET} "$@"',
                                 srun="srun --ntasks-per-node=$SLURM_GPUS_ON_NODE bash -c")),
    ("one_node", script("no_srun", f'{TORCHRUN} --master-addr=$(hostname) "$@"')),
    ("refused", started_by_hand("misspelt", f'{TORCHRUN} --master=$0 --port=1 "$@"')),
    ("misread", started_by_hand("cut_line", TORCHRUN.replace("\\", "") + f' {MEET} "$@"')),
    ("misread", script("spaces_around_is", f"""
first = $(hostname)
{THERE} '{TORCHRUN} {MEET} "$@"' "$first" "$@" """)),
    ("literal", script("nobody_to_replace_it", f'srun {TORCHRUN} --master-addr=$(hostname) "$@"'
                       .replace("$SLURM_NODEID", "'$SLURM_NODEID'"))),
    ("empty", script("not_exported", f"""
first=$(hostname)
{THERE} '{TORCHRUN} --master-addr=$first "$@"' _ "$@" """)),
    ("no_training", started_by_hand("no_words", f'{TORCHRUN} --master-addr=n1 "$@"', after="")),
    ("lonely", started_by_hand("standalone",
                               'torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE "$@"')),
    ("nnodes", started_by_hand(
        "tasks_for_nodes", f'torchrun --nnodes=$((SLURM_NNODES * SLURM_GPUS_ON_NODE)) {MEET} '
        '--node-rank=$SLURM_NODEID --nproc-per-node=$SLURM_GPUS_ON_NODE "$@"')),
    ("nproc", started_by_hand(
        "world_on_each_node", f'torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID {MEET} '
        '--nproc-per-node=$((SLURM_NNODES * SLURM_GPUS_ON_NODE)) "$@"')),
    ("lost_word", script("swallowed", f"""
export first=$(hostname)
{THERE} '{TORCHRUN} --master-addr=$first "$@"' "$@" """)),
    ("split_word", started_by_hand("no_quotes", f"{TORCHRUN} {MEET} $@")),
    ("arguments", started_by_hand("forgotten", f"{TORCHRUN} {MEET} train.py")),
    ("same_place", script("expanded_early",
                          f'srun --ntasks-per-node=1 {TORCHRUN} --master-addr=$(hostname) "$@"')),
    ("places", started_by_hand("counts_down", TORCHRUN.replace(
        "$SLURM_NODEID", "$((SLURM_NNODES - 1 - SLURM_NODEID))") + f' {MEET} "$@"')),
    ("loopback", started_by_hand("loopback", f'{TORCHRUN} --master-addr=127.0.0.1 "$@"')),
    ("own_address", started_by_hand("asked_there", f'{TORCHRUN} --master-addr=$(hostname) "$@"')),
    ("no_address", started_by_hand("folded_list", f'{TORCHRUN} {MEET} "$@"',
                                   after='"$SLURM_JOB_NODELIST" "$@"')),
    ("wrong_node", started_by_hand(
        "the_last_one", f'{TORCHRUN} {MEET} "$@"',
        after='"$(scontrol show hostnames | tail -n 1)" "$@"')),
    ("ports", started_by_hand(
        "rolled_there", f'{TORCHRUN} --master-addr=$0 --master-port=$((20000 + RANDOM)) "$@"')),
    ("ids", started_by_hand(
        "own_id", 'torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$SLURM_GPUS_ON_NODE '
        '--rdzv-backend=c10d --rdzv-endpoint=$0:29500 --rdzv-id=$SLURM_PROCID "$@"')),
]  # fmt: skip

START_RIGHT = [
    started_by_hand("in_one_line", f'{TORCHRUN} {MEET} "$@"'),
    script("by_rendezvous", """
srun --ntasks-per-node=1 torchrun --nnodes="$SLURM_NNODES" --rdzv-backend=c10d \\
  --nproc-per-node="$SLURM_GPUS_ON_NODE" --rdzv-id="$SLURM_JOB_ID" \\
  --rdzv-endpoint="$(hostname):29500" "$@"
"""),
    script("with_exported_names", """
export MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export PORT=$((20000 + SLURM_JOB_ID % 10000))
srun -n "$SLURM_NNODES" -N "$SLURM_NNODES" bash -c '
  python -m torch.distributed.run --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID \\
    --nproc_per_node gpu --master_addr $MASTER --master_port $PORT "$@"
' bash "$@"
"""),
    script("node_by_node", f"""
place=0
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  srun --nodes=1 --ntasks=1 -w "$node" {TORCHRUN.replace("$SLURM_NODEID", "$place")} \\
    --master-addr=$(hostname) "$@" &
  place=$((place + 1))
done
wait
"""),
    script("by_the_name_of_the_script's_node", f"""
first=$(scontrol show hostname $SLURM_NODELIST | head -n 1)
[ "$first" = "$HOSTNAME" ] || exit 1
{THERE} '{TORCHRUN} {MEET} "$@"' "$HOSTNAME" "$@"
"""),
    started_by_hand("by_srun's_own_address",
                    f'{TORCHRUN} --master-addr=$SLURM_LAUNCH_NODE_IPADDR "$@"'),
]  # fmt: skip

TRAP = """"$@" &
training=$!
"""
REQUEUE = """if [ "$code" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
"""
LOOP = """while true; do
  told=no
  wait "$training"
  code=$?
  [ "$told" = yes ] || break
done
"""
SET = "trap 'told=yes; kill -USR1 \"$training\"' USR1\n"

SURVIVES = [
    ("none", prints_it),
    ("not_text", in_pieces),
    ("syntax", script("no_fi", f'{TRAP}if [ "$?" = 75 ]; then scontrol requeue')),
    ("never_trained", script("another_program", "train.sh --all\nexit 0")),
    ("left_alone", script("does_not_wait", '"$@" &\nexit 0')),
    ("for_ever", script("always_requeues", TRAP + SET + LOOP + "scontrol requeue $SLURM_JOB_ID")),
    ("code_of_success", script("test_is_last", TRAP + SET + LOOP
                               + '[ "$code" = 75 ] && scontrol requeue "$SLURM_JOB_ID"')),
    ("repeats_failure", script("requeues_what_is_not_0", TRAP + SET + LOOP
                               + '[ "$code" = 0 ] || scontrol requeue $SLURM_JOB_ID; exit $code')),
    ("code_lost", script("ends_with_echo", TRAP + SET + LOOP + REQUEUE.replace(
        'exit "$code"', 'echo "ended with $code"'))),
    ("other_code", script("makes_it_one", TRAP + SET + LOOP + REQUEUE.replace(
        'exit "$code"', '[ "$code" = 0 ]'))),
    ("killed_code", script("all_signals_are_one", TRAP + SET + LOOP
                           + '[ "$code" -lt 128 ] || code=1\n' + REQUEUE)),
    ("never_ends", script("as_long_as_a_signal", TRAP + SET + """
code=200
while [ "$code" -gt 128 ]; do wait "$training"; code=$?; sleep 0.05; done
""".replace("code=$?", "code=$?; [ $code != 127 ] || code=200") + REQUEUE)),
    ("too_late", script("in_front", """trap 'kill -USR1 $!' USR1
"$@"
code=$?
""" + REQUEUE)),
    ("no_number", script("kills_no_number",
                         'trap "kill -USR1 $!" USR1\n' + TRAP + LOOP + REQUEUE)),
    ("misread", script("bracket_is_a_command", TRAP + SET + LOOP + REQUEUE.replace("[ ", "["))),
    ("misread", script("no_test", TRAP + SET + LOOP + REQUEUE.replace('[ "$code" = 75 ]',
                                                                    "$code == 75"))),
    ("misread", script("spaces_around_is", (TRAP + SET + LOOP + REQUEUE).replace("=$!", " = $!"))),
    ("script_died", script("no_trap", TRAP + 'wait "$training"; code=$?\n' + REQUEUE)),
    ("not_told", script("told_too_roughly",
                        TRAP + SET.replace("-USR1", "-TERM") + LOOP + REQUEUE)),
    ("did_not_wait", script("waits_once", TRAP + SET.replace("told=yes;", "")
                            + 'wait $training; code=$?\n' + REQUEUE)),
    ("code_of_wait", script("waits_in_the_trap", TRAP + SET.replace(
        '"$training"\'', '"$training"; wait "$training"\'')
        + 'wait $training; code=$?\n' + REQUEUE)),
    ("requeued_early", script("requeues_in_the_trap", TRAP + SET.replace(
        "told=yes;", 'told=yes; scontrol requeue "$SLURM_JOB_ID";') + LOOP + 'exit "$code"')),
    ("not_requeued", script("hands_on_75", TRAP + SET + LOOP + 'exit "$code"')),
    ("which_job", script("without_a_number",
                         TRAP + SET + LOOP + REQUEUE.replace(' "$SLURM_JOB_ID"', ""))),
    ("twice", script("two_places", TRAP + SET + LOOP
                     + '[ "$code" != 75 ] || scontrol requeue "$SLURM_JOB_ID"\n' + REQUEUE)),
]  # fmt: skip

SURVIVE_RIGHT = [
    script("while_it_lives", TRAP + SET + """
while kill -0 "$training" 2>/dev/null; do wait "$training"; code=$?; done
""" + REQUEUE),
    script("in_a_function", """
pass_on() { kill -USR1 "$child"; signalled=1; }
trap pass_on SIGUSR1
"$@" &
child=$!
signalled=
wait $child; code=$?
while [ -n "$signalled" ]; do signalled=; wait $child; code=$?; done
case $code in 75) scontrol requeue $SLURM_JOB_ID;; esac
exit $code
"""),
    script("under_srun", (TRAP + SET + LOOP + REQUEUE).replace('"$@" &', 'srun "$@" &')),
    script("with_set_e_and_the_old_name", "set -e\n" + TRAP + SET + """
code=0
wait "$training" || code=$?
while [ "$code" -gt 128 ] && kill -0 "$training" 2>/dev/null; do
  code=0
  wait "$training" || code=$?
done
""" + REQUEUE.replace("SLURM_JOB_ID", "SLURM_JOBID")),
    script("noisy_but_right", TRAP + SET + """
while kill -0 "$training"; do wait "$training"; code=$?; done
""" + REQUEUE),
]  # fmt: skip

WRONG = [
    *(("start_ranks", key, answer) for key, answer in STARTS),
    *(("survive", key, answer) for key, answer in SURVIVES),
]
RIGHT = [
    *(("start_ranks", answer) for answer in START_RIGHT),
    *(("survive", answer) for answer in SURVIVE_RIGHT),
]
LADDER = (
    "start_ranks",
    '''def start_ranks():
    return """
srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID \\\\
  --nproc-per-node=$SLURM_GPUS_ON_NODE --master-addr=$(hostname) "$@"
"""
''',
    """def start_ranks():
    line = 'srun -N $SLURM_NNODES --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES '
    line += '--node-rank $SLURM_NODEID --nproc-per-node $SLURM_GPUS_ON_NODE '
    return line + '--master-addr $(hostname) "$@"'
""",
)
