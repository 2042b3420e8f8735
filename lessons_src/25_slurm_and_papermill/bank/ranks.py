"""More answers to `start_ranks`, for the tests alone: what the lines of each script are."""

TORCHRUN = """torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID \\
  --nproc-per-node=$SLURM_GPUS_ON_NODE"""
MEET = '--master-addr="$0" --master-port=29500'
ALL = "$((SLURM_NNODES * SLURM_GPUS_ON_NODE))"  # ranks
THERE = "srun --ntasks-per-node=1 bash -c"


def there(inside, after='"$(hostname)" "$@"', srun=THERE):
    """On every node these words, in a shell of its own."""
    return f"{srun} '{inside}' {after}"


def returns_nothing():
    print("srun torchrun")


STARTS = (
    ("syntax", f"{THERE} 'torchrun \"$@\""),
    ("nothing", 'mpirun -n "$SLURM_NNODES" torchrun "$@"'),
    ("no_torchrun", 'srun python "$@"'),
    ("too_many", there(f'{TORCHRUN} {MEET} "$@"',
                       srun="srun --ntasks-per-node=$SLURM_GPUS_ON_NODE bash -c")),
    ("too_often", f"""
for node in 1 2 3; do
  srun -N 1 -w n$node {TORCHRUN} --master-addr=n1 "$@"
done
"""),
    ("one_node", f'{TORCHRUN} --master-addr=$(hostname) "$@"'),
    ("refused", there(f'{TORCHRUN} --master=$0 --port=1 "$@"')),
    ("misread", there(TORCHRUN.replace("\\", "") + f' {MEET} "$@"')),
    ("misread", f"""
first = $(hostname)
{THERE} '{TORCHRUN} {MEET} "$@"' "$first" "$@" """),
    ("literal", f'srun {TORCHRUN} --master-addr=$(hostname) "$@"'
     .replace("$SLURM_NODEID", "'$SLURM_NODEID'")),
    ("empty", f"""
first=$(hostname)
{THERE} '{TORCHRUN} --master-addr=$first "$@"' _ "$@" """),
    ("no_training", there(f'{TORCHRUN} --master-addr=n1 "$@"', after="")),
    ("lonely", there('torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE "$@"')),
    ("nnodes", there(TORCHRUN.replace("$SLURM_NNODES", ALL)
                     + f' {MEET} "$@"')),
    ("nproc", there(TORCHRUN.replace("$SLURM_GPUS_ON_NODE", ALL)
                    + f' {MEET} "$@"')),
    ("lost_word", f"""
export first=$(hostname)
{THERE} '{TORCHRUN} --master-addr=$first "$@"' "$@" """),
    ("split_word", there(f"{TORCHRUN} {MEET} $@")),
    ("arguments", there(f"{TORCHRUN} {MEET} train.py")),
    # this shell, and not the node's, replaces the number
    ("same_place", f'srun --ntasks-per-node=1 {TORCHRUN} --master-addr=$(hostname) "$@"'),
    ("places", there(TORCHRUN.replace("$SLURM_NODEID", "$((SLURM_NNODES - 1 - SLURM_NODEID))")
                     + f' {MEET} "$@"')),
    ("loopback", there(f'{TORCHRUN} --master-addr=127.0.0.1 "$@"')),
    ("own_address", there(f'{TORCHRUN} --master-addr=$(hostname) "$@"')),
    ("no_address", there(f'{TORCHRUN} {MEET} "$@"', after='"$SLURM_JOB_NODELIST" "$@"')),
    ("wrong_node", there(f'{TORCHRUN} {MEET} "$@"',
                         after='"$(scontrol show hostnames | tail -n 1)" "$@"')),
    ("ports", there(f'{TORCHRUN} --master-addr=$0 --master-port=$((20000 + RANDOM)) "$@"')),
    ("ids", there('torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$SLURM_GPUS_ON_NODE '
                  '--rdzv-backend=c10d --rdzv-endpoint=$0:29500 --rdzv-id=$SLURM_PROCID "$@"')),
)  # fmt: skip
ENDLESS = {"hangs": "while true; do sleep 0.1; done"}  # takes seconds: see `limit`
RARE = set(ENDLESS)
RIGHT = (
    there(f'{TORCHRUN} {MEET} "$@"'),
    """
srun --ntasks-per-node=1 torchrun --nnodes="$SLURM_NNODES" --rdzv-backend=c10d \\
  --nproc-per-node="$SLURM_GPUS_ON_NODE" --rdzv-id="$SLURM_JOB_ID" \\
  --rdzv-endpoint="$(hostname):29500" "$@"
""",
    """
export MASTER=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export PORT=$((20000 + SLURM_JOB_ID % 10000))
srun -n "$SLURM_NNODES" -N "$SLURM_NNODES" bash -c '
  python -m torch.distributed.run --nnodes $SLURM_NNODES --node_rank $SLURM_PROCID \\
    --nproc_per_node gpu --master_addr $MASTER --master_port $PORT "$@"
' bash "$@"
""",
    f"""
place=0
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  srun --nodes=1 --ntasks=1 -w "$node" {TORCHRUN.replace("$SLURM_NODEID", "$place")} \\
    --master-addr=$(hostname) "$@" &
  place=$((place + 1))
done
wait
""",
    f"""
first=$(scontrol show hostname $SLURM_NODELIST | head -n 1)
[ "$first" = "$HOSTNAME" ] || exit 1
{THERE} '{TORCHRUN} {MEET} "$@"' "$HOSTNAME" "$@"
""",
    there(f'{TORCHRUN} --master-addr=$SLURM_LAUNCH_NODE_IPADDR "$@"'),
)

ALSO_WRONG = [
    ("none", returns_nothing),
    ("not_text", lambda: ["srun", "torchrun", "$@"]),
    *((key, lambda text=text: text) for key, text in STARTS),
]
ALSO_RIGHT = [lambda text=text: text for text in RIGHT]
LADDER = (
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
