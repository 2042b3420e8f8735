"""The programs of the practice cluster, as text: what a script there finds under Slurm's names.

`srun` passes SIGUSR1 on to its task, as Slurm's own does. Of `-w` it understands only one node,
with `-N 1`.
"""

from __future__ import annotations

# These options take no value; every other one of srun does, after "=" or as the next word.
_FLAGS = "--exclusive|--overlap|--label|-l|--unbuffered|-u|--pty|-K|--kill-on-bad-exit|-v|-Q"
SRUN = f"""#!/bin/bash
nodes=$SLURM_NNODES each= all= first=1
while [ $# -gt 0 ]; do
  word=$1
  case $word in
    --) shift; break ;;
    {_FLAGS}) shift; continue ;;
    --*=*) value=${{word#*=}} word=${{word%%=*}}; shift ;;
    -[A-Za-z]?*) value=${{word#-?}} word=${{word%"$value"}}; shift ;;
    -*) value=$2; shift 2 || {{ echo "srun: option $word requires an argument" >&2; exit 1; }} ;;
    *) break ;;
  esac
  case $word in
    --nodes|-N) nodes=$value ;;
    --ntasks-per-node) each=$value ;;
    --ntasks|-n) all=$value ;;
    --nodelist|-w) first=${{value#n}} ;;
  esac
done
[ -n "$each" ] || each=$(( all > nodes ? all / nodes : 1 ))
(( nodes == 1 )) || first=1
trap 'told=yes; [ -z "$child" ] || kill -USR1 "$child"' USR1
code=0
for (( node = 0; node < nodes; node++ )); do
  for (( task = 0; task < each; task++ )); do
    SLURM_NODEID=$node SLURM_LOCALID=$task SLURM_PROCID=$(( node * each + task )) \\
      SLURM_NTASKS=$(( nodes * each )) SLURMD_NODENAME=n$(( first + node )) \\
      SLURM_LAUNCH_NODE_IPADDR=n1 "$@" <&0 &
    child=$! told=yes
    while [ "$told" = yes ]; do told=no; wait "$child"; ended=$?; done
    (( ended == 0 )) || code=$ended
  done
done
exit $code
"""
# bash flushes at every newline, so one call is several writes: a lock keeps calls from mixing.
_STARTED = """
until mkdir "$PRACTICE/writing" 2>/dev/null; do sleep 0.01; done
printf '%s\\0' "$SLURMD_NODENAME" "$program" "$@" $'\\n' >> "$PRACTICE/started"
rmdir "$PRACTICE/writing"
"""
TORCHRUN = "#!/bin/bash\nprogram=torchrun" + _STARTED
PYTHON = (
    """#!/bin/bash
if [ "$1" = -m ] && [ "$2" = torch.distributed.run ]; then shift 2; exec torchrun "$@"; fi
program=python"""
    + _STARTED
)
HOSTNAME = '#!/bin/bash\necho "$SLURMD_NODENAME"\n'
_NOTE = """
import os, sys, time
def note(what):
    with open(os.environ["PRACTICE"] + "/events", "a") as file:
        file.write(f"{time.time()} {what}\\n")
"""
SCONTROL = (
    _NOTE
    + """
if sys.argv[1:3] in (["show", "hostnames"], ["show", "hostname"]):
    print("\\n".join(f"n{i + 1}" for i in range(int(os.environ["SLURM_NNODES"]))))
elif sys.argv[1:2] == ["requeue"]:
    note("requeue " + " ".join(sys.argv[2:]))
"""
)
# Training: it says when it is ready, writes a checkpoint when it is told to stop, and ends then.
TRAIN = (
    _NOTE
    + """
import signal
life, code = float(os.environ["LIFE"]), int(os.environ["CODE"])
def stop(*_):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    note("told")
    time.sleep(float(os.environ["SAVING"]))
    note("checkpoint")
    os._exit(int(os.environ["ENDS"]))
signal.signal(signal.SIGUSR1, stop)
note("ready")
time.sleep(life)
note("end")
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
)
