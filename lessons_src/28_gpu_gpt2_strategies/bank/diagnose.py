"""More answers to `diagnose`, for the tests alone."""

from ..exercises.diagnose import diagnose

SIGNS = {
    "memory": ("OutOfMemoryError", "can't allocate memory"),
    "cudnn": ("libcudnn", "cuDNN version incompatibility"),
    "launcher": ("--local_rank", "invalid device ordinal", "mpi4py", "mpi_discovery"),
    "deepspeed": ("No module named 'deepspeed'",),
    "batch": ("train_batch_size is not equal",),
    "internet": ("couldn't connect", "gaierror"),
}


def lower_case(log):
    text = log.lower()
    for cause, signs in SIGNS.items():
        if any(sign.lower() in text for sign in signs):
            return cause


def line_by_line(log):
    found = [diagnose(line) for line in log.splitlines()]
    causes = [cause for cause in found if cause]
    return "memory" if "memory" in causes else causes[0] if causes else None


ALSO_WRONG = [("no_cause", lambda log: (cause := diagnose(log)) and f"the cause is {cause}")]
ALSO_RIGHT = [lower_case, line_by_line]
