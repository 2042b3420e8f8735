# shellcheck shell=bash
# What the batch scripts share; they source this file. The cluster's settings are in site.env.
#
# It sets: home (the course), python, out (the job's folder, one for all tasks of an array),
# restart (how often it was requeued), cpus (of this job per node, on the node with the fewest).
set -euo pipefail

home=${DTLIB_HOME:-${SLURM_SUBMIT_DIR:?this is a batch script: submit it with sbatch, from the folder of the course}}
# shellcheck source=slurm/environment.sh
. "$home/slurm/environment.sh"
restart=${SLURM_RESTART_COUNT:-0}
task=${SLURM_ARRAY_TASK_ID:-}
out=${DTLIB_BATCH_OUT:-$home/batch}/$SLURM_JOB_NAME-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
# srun gives a task one CPU unless --cpus-per-task says more; "8(x3),4" means four nodes.
cpus=$(tr , '\n' <<<"${SLURM_JOB_CPUS_PER_NODE:-1}" | sed 's/(.*//' | sort -n | head -n 1)
# After sbatch --export=NONE a step would have neither site.env's variables nor those set here.
export SLURM_EXPORT_ENV=ALL
mkdir -p "$out"
rm -f "$out/run/requeue" # left by the last start; this one may end before it begins a run
echo "$(date '+%F %T') job $SLURM_JOB_ID${task:+, task $task}, start $restart, on $SLURM_JOB_NODELIST;" \
  "its files are in $out"

# Ranks that share a core take turns, which is slow and easily overlooked.
ranks=${DTLIB_RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}
if [ "$cpus" -lt "$ranks" ]; then
  echo "$ranks ranks share $cpus CPU(s) of each node; ask for more:" \
    "sbatch --cpus-per-task=$((8 * ranks)) …" >&2
fi

# supervise COMMAND…: run it, pass on SIGUSR1 (the time is nearly up) and SIGTERM, and set code to
# its exit code. `wait` also returns when a signal arrives, while the command still runs.
supervise() {
  local child signalled
  "$@" &
  child=$!
  trap 'signalled=yes; kill -USR1 "$child" 2>/dev/null || true' USR1
  trap 'signalled=yes; kill -TERM "$child" 2>/dev/null || true' TERM
  while true; do
    signalled=
    code=0
    # shellcheck disable=SC2034  # the caller uses it
    wait "$child" || code=$?
    [ -n "$signalled" ] || break
  done
  trap - USR1 TERM
}

# Every run of this job that is stopped adds a line "STEP FOLDER" to this file, wherever it is.
export DTLIB_STOPPED=$out/stopped${task:+.t$task}

# gained BEFORE: print the progress of all starts, in the format of the file BEFORE: the step at
# which each run stopped, or 999999999 for a complete run. A run in a new, numbered folder
# (runs/text-ddp-001) begins again in the next start, so it does not count as progress. Other tasks
# of an array may write there at the same time, so files can vanish while find runs.
gained() {
  {
    cat "$1" "$DTLIB_STOPPED" 2>/dev/null || true
    find "$out" -name checkpoints -prune -o -name summary.json -printf '999999999 %h\n' \
      -o -name requeue -exec awk '{ sub("/requeue$", "", FILENAME); print $NF, FILENAME }' {} + \
      2>/dev/null || true
  } | awk 'NF < 2 || /\/runs\/(images|text)-[a-z0-9_]+-[0-9]+$/ { next }
    { step = $1 + 0; sub(/^[^ ]* /, ""); if (!($0 in best) || step > best[$0]) best[$0] = step }
    END { for (folder in best) print best[folder], folder }' | sort
}

# finish_gaining CODE: finish, but do not requeue after a start without progress, neither a run nor
# a step: the next starts would fare the same, for ever.
finish_gaining() {
  local code=$1 before=$out/gained${task:+.t$task} now
  now=$(gained "$before")
  if [ "$code" = 75 ] && [ -e "$before" ] && [ "$now" = "$(cat "$before")" ]; then
    echo "this start gained no step and no run, so the job is not requeued: give it more time" \
      "(sbatch --time=…), or an earlier warning (--signal=B:USR1@…)" >&2
    code=1
  fi
  echo "$now" >"$before"
  finish "$code"
}

# finish CODE: record the exit code and exit with it; 75 means "stopped with a checkpoint: requeue me".
finish() {
  local code=$1
  echo "$code" >"$out/exit-code${task:+.t$task}.r$restart"
  echo "$(date '+%F %T') job $SLURM_JOB_ID, start $restart, ended with exit code $code"
  # One task of an array has the array's own job number, which would requeue all tasks.
  if [ "$code" = 75 ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${task:+_$task}"; fi
  exit "$code"
}

# finish_run: the same for `dtlib train --out $out/run`. A launcher turns every exit code of its
# ranks into 1; a file in the run's folder shows that the run was only stopped.
finish_run() {
  if [ -e "$out/run/requeue" ]; then code=75; fi
  finish_gaining "$code"
}

# study KIND SETTING…: run one part of a study; all tasks of the array write into one folder.
study() {
  local kind=$1
  shift
  supervise "$python" -m dtlib study "$kind" "$@" --out "$out/study" \
    --part "${SLURM_ARRAY_TASK_ID:?this needs an array: sbatch --array=0-8, one number per run}"
  finish_gaining "$code"
}

# profile TOOL COMMAND…: every srun task is a rank with its own profiler.
profile() {
  local tool=$1
  shift
  if [ $((ranks * SLURM_NNODES)) = 1 ]; then
    # dtlib would not join a step of one task: it would start its ranks as children, unprofiled.
    export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
  fi
  local share=(--cpus-per-task="$((cpus / ranks))") # a second one for the profiler, if there is one
  if [ "$cpus" -lt "$ranks" ]; then share=(--overcommit); fi # otherwise srun refuses tasks that share one
  supervise srun --ntasks-per-node="$ranks" --ntasks="$((ranks * SLURM_NNODES))" "${share[@]}" \
    --kill-on-bad-exit=1 \
    "$python" -m dtlib profile "$tool" -- train "$@" --out "$out/run"
  finish "$code"
}
