"""`share_of_peak`: the MFU of a training run from its images per second, checked by physics."""

from dtlib.learn.answers import Answer
from dtlib.learn.ratios import short
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.sim import hardware

GPUS, IMAGES = "(gpus * peak)", "images_per_second * 3"  # words of the solution

share_of_peak = solution("share_of_peak", globals())


def case(images=100.0, flop=2e9, gpus=1, peak=1.2e12):
    """100 images/s with 2 GFLOP forward make 600 GFLOP/s in training: half of 1.2 TFLOP/s."""
    gpu = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    label = f"{images:g} images/s, {flop:g} FLOP forward, {gpu} of {peak:g} FLOP/s"
    return label, (images, flop, gpus, peak)


def read(got):
    """Read a share, which is above 0."""
    share = number(got)
    if share <= 0:
        raise Wrong("not_positive", got=short(share))
    return share


def passed(got, want):
    """Compare the shares of the published run."""
    shares = (round(100 * share[-1], 1) for share in (got, want))
    return Passed((("a published ResNet-18 on one A100", *shares, "%"),))


EXERCISE = Answer(
    share_of_peak,
    read=read,
    cases=[
        case(),
        case(gpus=4),
        case(images=200.0),
        # airbench's own baseline, "Standard ResNet-18 training": 7 minutes and 32.3 PFLOP on an
        # A100, which is 23,100 images/s at 3.33 GFLOP (https://github.com/KellerJordan/cifar10-airbench)
        case(23_100.0, 1.11e9, 1, hardware.peak("a100-80", "bf16")),
    ],
    mistakes=[
        ("forward_only", {"* 3 *": "*"}),
        ("backward_only", {"* 3 *": "* 2 *"}),
        ("multiply_adds", {"* 3 *": "* 6 *"}),
        ("per_cent", {"* 3 *": "* 300 *"}),
        ("upside_down", lambda *run: 1 / share_of_peak(*run)),
        ("in_flop", {GPUS: "gpus"}),
        ("one_gpu", {GPUS: "peak"}),
        ("gpus_times", {GPUS: "(peak / gpus)"}),
        ("fixed", {IMAGES: "100 * 3"}),
        ("slower", {IMAGES: "1e4 / images_per_second * 3"}),
    ],
    other="factor",
    facts=lambda got, want: {"got": short(got), "want": short(want), "times": short(got / want)},
    passed=passed,
)
