"""How long a step waits for its batch. Numbers only: runs in a page."""

import math


def waiting(step_ms, tokens, rate, workers):
    """Milliseconds that a step waits for its batch, in the long run.

    Workers prepare batches side by side while steps run; a step cannot begin before its batch is
    there.

    Parameters
    ----------
    step_ms
        Milliseconds of a step without waiting.
    tokens
        Tokens of a rank's batch.
    rate
        Tokens that one worker prepares in a second.
    workers
        Worker processes of a rank.
    """
    return max(0.0, 1000 * tokens / (rate * workers) - step_ms)


def needed(step_ms, tokens, rate):
    """The smallest number of workers with which no step waits."""
    return max(1, math.ceil(1000 * tokens / (rate * step_ms) - 1e-9))


def loader_curve(step_ms, thousand_tokens, rate_power, workers):
    """Waiting over the number of workers, for the sliders of a what-if.

    Parameters
    ----------
    step_ms
        Milliseconds of a step without waiting.
    thousand_tokens
        Tokens of a rank's batch, in thousands.
    rate_power
        Power of ten of the tokens that a worker prepares in a second.
    workers
        Worker processes of a rank.
    """
    tokens, rate = 1000 * thousand_tokens, 10**rate_power
    wait = waiting(step_ms, tokens, rate, workers)
    enough = needed(step_ms, tokens, rate)
    return {
        "curves": {
            "waiting": [[k, waiting(step_ms, tokens, rate, k)] for k in range(1, 17)],
            "the step itself": [[k, step_ms] for k in range(1, 17)],
        },
        "point": [workers, wait],
        "x": "workers of a rank",
        "y": "ms",
        "says": f"Computed: a step of {step_ms:.0f} ms waits {wait:.0f} ms for its batch, "
        + f"{100 * wait / (wait + step_ms):.0f} % of its time; {enough} "
        + f"worker{'s' * (enough > 1)} would be enough.",
    }
