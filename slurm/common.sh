# shellcheck shell=bash
# What the batch scripts share; they source it. Settings of the cluster stand in site.env.
#
# It sets: home (the course), python, out (the job's folder, one for all tasks of an array),
# restart (how often it was requeued), cpus (of this job on each node, or on the node that has fewest).
set -euo pipefail

home=${DTLIB_HOME:-${SLURM_SUBMIT_DIR:?this is a batch script: give it to sbatch, in the folder of the course}}
# shellcheck source=slurm/environment.sh
. "$home/slurm/environment.sh"
restart=${SLURM_RESTART_COUNT:-0}
task=${SLURM_ARRAY_TASK_ID:-}
out=${DTLIB_BATCH_OUT:-$home/batch}/$SLURM_JOB_NAME-${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
# srun gives a task one CPU unless it is told the job's own number: "8(x3),4" is four nodes.
cpus=$(tr , '\n' <<<"${SLURM_JOB_CPUS_PER_NODE:-1}" | sed 's/(.*//' | sort -n | head -n 1)
# After sbatch --export=NONE a step would have neither site.env's variables nor those set here.
export SLURM_EXPORT_ENV=ALL
mkdir -p "$out"
rm -f "$out/run/requeue" # the last start's: this one may end before it has begun a run
echo "$(date '+%F %T') job $SLURM_JOB_ID${task:+, task $task}, start $restart, on $SLURM_JOB_NODELIST;" \
  "what it makes is in $out"

# Ranks that share a core take turns: slow, and the cause of many a mystery.
ranks=${DTLIB_RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}
if [ "$cpus" -lt "$ranks" ]; then
  echo "$ranks ranks share $cpus CPU(s) of each node; ask for more:" \
    "sbatch --cpus-per-task=$((8 * ranks)) …" >&2
fi

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

# What runs of this job add a line to when they are stopped, wherever they lie: "STEP FOLDER".
export DTLIB_STOPPED=$out/stopped${task:+.t$task}

# gained BEFORE: the best that all starts have come to, lines like those of the file BEFORE: after
# which step each run stopped, or a step that none has when it is done. A run whose folder was new
# (runs/text-ddp-001) begins anew in the next start, so it is nothing that is gained. Other tasks of
# an array may write there at the same time, so that files vanish while find looks.
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

# finish_gaining CODE: finish, but a start that has gained neither a run nor a step is the last one:
# it would be followed by others like it, for ever.
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

# finish CODE: note the exit code and end with it; 75 means "stopped with a checkpoint: requeue me".
finish() {
  local code=$1
  echo "$code" >"$out/exit-code${task:+.t$task}.r$restart"
  echo "$(date '+%F %T') job $SLURM_JOB_ID, start $restart, ended with exit code $code"
  # One task of an array has the array's own number, by which all its tasks would start again.
  if [ "$code" = 75 ]; then scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${task:+_$task}"; fi
  exit "$code"
}

# finish_run: the same for `dtlib train --out $out/run`. A launcher turns every exit code of its
# ranks into 1; the run's folder tells that it was only stopped.
finish_run() {
  if [ -e "$out/run/requeue" ]; then code=75; fi
  finish_gaining "$code"
}

# study KIND SETTING…: one part of a study, which all tasks of the array write into one folder.
study() {
  local kind=$1
  shift
  supervise "$python" -m dtlib study "$kind" "$@" --out "$out/study" \
    --part "${SLURM_ARRAY_TASK_ID:?it is an array: sbatch --array=0-8, a number for each of its runs}"
  finish_gaining "$code"
}

# profile TOOL COMMAND…: every srun task is a rank, and has a profiler of its own.
profile() {
  local tool=$1
  shift
  if [ $((ranks * SLURM_NNODES)) = 1 ]; then
    # A step of one task is no world: without this its ranks would be children of the profiled process.
    export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
  fi
  local share=(--cpus-per-task="$((cpus / ranks))") # a second one for the profiler, if there is one
  if [ "$cpus" -lt "$ranks" ]; then share=(--overcommit); fi # else srun refuses tasks that share one
  supervise srun --ntasks-per-node="$ranks" --ntasks="$((ranks * SLURM_NNODES))" "${share[@]}" \
    --kill-on-bad-exit=1 \
    "$python" -m dtlib profile "$tool" -- train "$@" --out "$out/run"
  finish "$code"
}
