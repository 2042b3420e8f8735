# shellcheck shell=bash
# What the batch scripts share; they source it. Settings of the cluster stand in site.env.
#
# It sets: home (the course), python, out (the job's folder), restart (how often it was requeued).
set -euo pipefail

home=${DTLIB_HOME:-${SLURM_SUBMIT_DIR:?this is a batch script: give it to sbatch, in the folder of the course}}
site=${DTLIB_SITE:-$home/slurm/site.env}
if [ -f "$site" ]; then
  set -a
  # shellcheck disable=SC1090
  . "$site"
  set +a
fi
# shellcheck disable=SC2034  # the scripts that source this use it
python=${DTLIB_PYTHON:-$home/.venv/bin/python}
restart=${SLURM_RESTART_COUNT:-0}
out=${DTLIB_BATCH_OUT:-$home/batch}/$SLURM_JOB_NAME-$SLURM_JOB_ID
export PYTHONPATH=$home${PYTHONPATH:+:$PYTHONPATH}
# torch's C++ warnings, as of a node's name that has no reverse entry, tell nothing.
export TORCH_CPP_LOG_LEVEL=${TORCH_CPP_LOG_LEVEL:-ERROR}
mkdir -p "$out"
echo "$(date '+%F %T') job $SLURM_JOB_ID, start $restart, on $SLURM_JOB_NODELIST; what it makes is in $out"

# supervise COMMAND…: run it, tell it of SIGUSR1 (the time is nearly up) and SIGTERM, set code to
# how it ended. `wait` comes back when a signal came: then the command still runs.
supervise() {
  local child signalled
  "$@" &
  child=$!
  trap 'signalled=yes; kill -USR1 "$child" 2>/dev/null || true' USR1
  trap 'signalled=yes; kill -TERM "$child" 2>/dev/null || true' TERM
  while true; do
    signalled=
    code=0
    # shellcheck disable=SC2034  # it is what is asked for
    wait "$child" || code=$?
    [ -n "$signalled" ] || break
  done
  trap - USR1 TERM
}

# finish CODE: note the exit code and end with it; 75 means "stopped with a checkpoint: requeue me".
finish() {
  echo "$1" >"$out/exit-code.r$restart"
  echo "$(date '+%F %T') job $SLURM_JOB_ID, start $restart, ended with exit code $1"
  if [ "$1" = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
  exit "$1"
}
