# shellcheck shell=bash
# Where the course, its Python and its files are, from site.env; `home` is set before this is read.
#
# It sets python: that of an environment, or of a container when site.env names an image.
site=${DTLIB_SITE:-${home:?set home before you source this}/slurm/site.env}
if [ -f "$site" ]; then
  set -a
  # shellcheck disable=SC1090
  . "$site"
  set +a
fi

# Modules only in a job: where it is submitted from they would change your own shell's programs.
if [ -n "${DTLIB_MODULES:-}" ] && [ -n "${SLURM_JOB_ID:-}" ]; then
  set +eu # module's own functions heed neither
  # shellcheck disable=SC1090
  type module >/dev/null 2>&1 || . "${DTLIB_MODULES_INIT:-/etc/profile}"
  # shellcheck disable=SC2086  # several names
  if ! module load $DTLIB_MODULES; then
    echo "site.env: \`module load $DTLIB_MODULES\` failed on $(hostname): see DTLIB_MODULES and DTLIB_MODULES_INIT" >&2
    exit 69
  fi
  set -eu
fi

if [ -n "${DTLIB_IMAGE:-}" ]; then
  python=${DTLIB_PYTHON:-$home/docker/apptainer-python} # apptainer exec --nv
else
  # shellcheck disable=SC2034  # whoever sources this uses it
  python=${DTLIB_PYTHON:-$home/.venv/bin/python}
fi
export PYTHONPATH=$home${PYTHONPATH:+:$PYTHONPATH}

# What Hugging Face's libraries have fetched lies beside the data; a node without internet would
# try each download for minutes, so that in a job they are told not to.
if [ -n "${DTLIB_DATA:-}" ]; then export HF_HOME=${HF_HOME:-$DTLIB_DATA/huggingface}; fi
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-${SLURM_JOB_ID:+1}}
if [ -z "$HF_HUB_OFFLINE" ]; then unset HF_HUB_OFFLINE; fi
export TOKENIZERS_PARALLELISM=${TOKENIZERS_PARALLELISM:-false} # it warns in every forked worker
# torch's C++ warnings, as of a node's name that has no reverse entry, tell nothing.
export TORCH_CPP_LOG_LEVEL=${TORCH_CPP_LOG_LEVEL:-ERROR}
# Without it each rank has its own order of a set, and of a model's buffers made in that order.
export PYTHONHASHSEED=${PYTHONHASHSEED:-0}
# torchrun, and accelerate's, which reads only these: hand SIGUSR1 (the time is nearly up) to the
# ranks, and give them nearly the whole warning time to save, instead of half a minute; the rest is
# for the script, which then requeues its job.
export PET_SIGNALS_TO_HANDLE=${PET_SIGNALS_TO_HANDLE:-SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1}
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-100}
