# shellcheck shell=bash
# Where the course, its Python and its files are, from site.env; `home` is set before this is read.
#
# It sets python: that of an environment, or of a container if site.env names an image.
site=${DTLIB_SITE:-${home:?set home before you source this}/slurm/site.env}
if [ -f "$site" ]; then
  set -a
  # shellcheck disable=SC1090
  . "$site"
  set +a
fi

# Modules are loaded only in a job: in the shell that submits it, they would change your programs.
if [ -n "${DTLIB_MODULES:-}" ] && [ -n "${SLURM_JOB_ID:-}" ]; then
  set +eu # module's own functions don't work with either
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

# Hugging Face's libraries keep their downloads beside the data. On a node without internet they
# would try each download for minutes, so jobs run them offline.
if [ -n "${DTLIB_DATA:-}" ]; then export HF_HOME=${HF_HOME:-$DTLIB_DATA/huggingface}; fi
export HF_HUB_OFFLINE=${HF_HUB_OFFLINE:-${SLURM_JOB_ID:+1}}
if [ -z "$HF_HUB_OFFLINE" ]; then unset HF_HUB_OFFLINE; fi
export TOKENIZERS_PARALLELISM=${TOKENIZERS_PARALLELISM:-false} # it warns in every forked worker
# torch's C++ warnings, such as that a node's name has no reverse entry, are of no use here.
export TORCH_CPP_LOG_LEVEL=${TORCH_CPP_LOG_LEVEL:-ERROR}
# Otherwise each rank orders sets differently, and a model's buffers that are made in that order.
export PYTHONHASHSEED=${PYTHONHASHSEED:-0}
# For torchrun, and for accelerate's torchrun, which reads only these variables: pass SIGUSR1 (the
# time is nearly up) on to the ranks, and give them most of the warning time to save instead of half
# a minute; the script needs the rest to requeue its job.
export PET_SIGNALS_TO_HANDLE=${PET_SIGNALS_TO_HANDLE:-SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1}
export PET_SHUTDOWN_TIMEOUT=${PET_SHUTDOWN_TIMEOUT:-100}
