#!/usr/bin/env bash
# Start the training that distributed.yaml describes, with the launcher that its backend needs:
#   slurm/launch_training.sh [--print] [distributed.yaml] images|text [--SETTING VALUE …]
# On one machine it starts the training directly. In a batch script it starts itself in srun tasks
# on all nodes, because only there is the number of each node (SLURM_NODEID) and rank (SLURM_PROCID)
# known.
set -euo pipefail
home=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=slurm/environment.sh
. "$home/slurm/environment.sh"

if [ -n "${SLURM_JOB_ID:-}" ] && [ -z "${SLURM_STEP_NUM_TASKS:-}" ]; then
  options=$("$python" -m dtlib batch launch --srun "$@")
  # shellcheck disable=SC2086  # several options
  exec srun $options --kill-on-bad-exit=1 bash "$home/slurm/launch_training.sh" "$@"
fi
exec "$python" -m dtlib batch launch "$@"
