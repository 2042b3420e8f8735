"""Answers to lesson 28's third and fourth exercise: broken outputs, and tokens a second."""

from statistics import mean, median

SIGNS = {
    "memory": ("OutOfMemoryError", "can't allocate memory"),
    "cudnn": ("libcudnn", "cuDNN version incompatibility"),
    "launcher": ("--local_rank", "invalid device ordinal", "mpi4py", "mpi_discovery"),
    "deepspeed": ("No module named 'deepspeed'",),
    "batch": ("train_batch_size is not equal",),
    "internet": ("couldn't connect", "gaierror"),
}


def by_signs(log, **other):
    for cause, signs in {**SIGNS, **other}.items():
        if any(sign in log for sign in signs):
            return cause
    return None


def host_memory_is_none(log):
    return by_signs(log, memory=("OutOfMemoryError",))


def knows_one_cudnn_error(log):
    return by_signs(log, cudnn=("libcudnn.so",))


def knows_one_network_error(log):
    return by_signs(log, internet=("couldn't connect",))


def more_processes_than_cards(log):
    return by_signs(log, launcher=("--local_rank", "mpi4py"))


def missing_module_is_deepspeed(log):
    return by_signs(log, launcher=("--local_rank", "ordinal"), deepspeed=("ModuleNotFoundError",))


def last_line_only(log):
    last = log.splitlines()[-1]
    return "internet" if "Watchdog" in last else by_signs(last) or by_signs(log)


def only_the_last_line(log):
    if "Watchdog" not in log.splitlines()[-1]:
        return by_signs(log)
    return by_signs(log.splitlines()[-1])


def any_word(log):
    return by_signs(log, memory=("memory", "OutOfMemory"))


def every_warning(log):
    return by_signs(log, internet=("couldn't connect", "gaierror", "huggingface.co"))


def never_batch(log):
    return by_signs(log, batch=())


def assertion_is_memory(log):
    return by_signs(log, memory=(*SIGNS["memory"], "AssertionError"))


def a_sentence(log):
    found = by_signs(log)
    return found and f"the cause is {found}"


# Right.
def lower_case(log):
    text = log.lower()
    for cause, signs in SIGNS.items():
        if any(sign.lower() in text for sign in signs):
            return cause


def line_by_line(log):
    found = [by_signs(line) for line in log.splitlines()]
    causes = [cause for cause in found if cause]
    return "memory" if "memory" in causes else causes[0] if causes else None


def tokens(labels):
    return sum(label != -100 for window in labels for label in window)


def rates(steps, count=tokens):
    return [count(labels) / seconds for seconds, labels in steps]


def padding_counts(steps, ranks, warmup):
    total = median(rates(steps[warmup:], lambda b: sum(map(len, b))))
    return total, total / ranks


def windows(steps, ranks, warmup):
    total = median(rates(steps[warmup:], len))
    return total, total / ranks


def warm_up_too(steps, ranks, warmup):
    total = median(rates(steps))
    return total, total / ranks


def all_over_all_with_warm_up(steps, ranks, warmup):
    total = sum(tokens(b) for _, b in steps) / sum(s for s, _ in steps)
    return total, total / ranks


def average(steps, ranks, warmup):
    total = mean(rates(steps[warmup:]))
    return total, total / ranks


def sum_over_sum(steps, ranks, warmup):
    timed = steps[warmup:]
    total = sum(tokens(b) for _, b in timed) / sum(s for s, _ in timed)
    return total, total / ranks


def best(steps, ranks, warmup):
    total = max(rates(steps[warmup:]))
    return total, total / ranks


def last_step(steps, ranks, warmup):
    total = rates(steps)[-1]
    return total, total / ranks


def first_timed_step(steps, ranks, warmup):
    total = rates(steps[warmup:])[0]
    return total, total / ranks


def truth_counts(steps, ranks, warmup):
    found = [sum(x > 0 for one in labels for x in one) / s for s, labels in steps[warmup:]]
    return median(found), median(found) / ranks


def place_in_the_middle(steps, ranks, warmup):
    found = sorted(rates(steps[warmup:]))
    total = found[len(found) // 2]
    return total, total / ranks


def the_lower_one(steps, ranks, warmup):
    found = sorted(rates(steps[warmup:]))
    total = found[(len(found) - 1) // 2]
    return total, total / ranks


def two_medians(steps, ranks, warmup):
    timed = steps[warmup:]
    total = median(tokens(b) for _, b in timed) / median(s for s, _ in timed)
    return total, total / ranks


def times_ranks(steps, ranks, warmup):
    one = median(rates(steps[warmup:]))
    return one * ranks, one


def other_way_round(steps, ranks, warmup):
    total = median(rates(steps[warmup:]))
    return total / ranks, total


def one_number_twice(steps, ranks, warmup):
    total = median(rates(steps[warmup:]))
    return total, total


def each_times_ranks(steps, ranks, warmup):
    total = median(rates(steps[warmup:]))
    return total, total * ranks


def seconds_a_token(steps, ranks, warmup):
    total = median(rates(steps[warmup:]))
    return 1 / total, 1 / total * ranks


def one_number(steps, ranks, warmup):
    return median(rates(steps[warmup:]))


def sorts_in_place(steps, ranks, warmup):
    steps.sort(reverse=True)
    steps.pop()
    total = 4.0
    return total, total / ranks


def a_tenth_off(steps, ranks, warmup):
    total = 1.1 * median(rates(steps[warmup:]))
    return total, total / ranks


# Right.
def by_generator(steps, ranks, warmup):
    found = sorted(
        sum(1 for window in labels for label in window if label >= 0) / seconds
        for seconds, labels in steps[warmup:]
    )
    half = len(found) // 2
    total = (found[half] + found[~half]) / 2
    return [total, total / ranks]


def by_tensor(steps, ranks, warmup):
    import torch

    timed = steps[warmup:]
    found = [(torch.tensor(labels) != -100).sum() / seconds for seconds, labels in timed]
    total = torch.quantile(torch.stack(found), 0.5)
    return total, total / ranks


WRONG = [
    ("diagnose", "host", host_memory_is_none),
    ("diagnose", "version", knows_one_cudnn_error),
    ("diagnose", "resolver", knows_one_network_error),
    ("diagnose", "ordinal", more_processes_than_cards),
    ("diagnose", "mpi", missing_module_is_deepspeed),
    ("diagnose", "consequence_taken", last_line_only),
    ("diagnose", "consequence", only_the_last_line),
    ("diagnose", "alarm", any_word),
    ("diagnose", "warning", every_warning),
    ("diagnose", "silent", never_batch),
    ("diagnose", "mistaken", assertion_is_memory),
    ("diagnose", "no_cause", a_sentence),
    ("tokens_per_second", "padding", padding_counts),
    ("tokens_per_second", "label_0", truth_counts),
    ("tokens_per_second", "half_the_middle", place_in_the_middle),
    ("tokens_per_second", "windows", windows),
    ("tokens_per_second", "warm_up", warm_up_too),
    ("tokens_per_second", "mean", average),
    ("tokens_per_second", "sums", sum_over_sum),
    ("tokens_per_second", "fastest", best),
    ("tokens_per_second", "one_step", last_step),
    ("tokens_per_second", "medians_apart", two_medians),
    ("tokens_per_second", "times_ranks", times_ranks),
    ("tokens_per_second", "swapped", other_way_round),
    ("tokens_per_second", "each_is_all", one_number_twice),
    ("tokens_per_second", "each", each_times_ranks),
    ("tokens_per_second", "upside_down", seconds_a_token),
    ("tokens_per_second", "two", one_number),
    ("tokens_per_second", "mutates", sorts_in_place),
    ("tokens_per_second", "other", a_tenth_off),
]
ALSO_WRONG = [
    ("tokens_per_second", "warm_up", all_over_all_with_warm_up),
    ("tokens_per_second", "one_step", first_timed_step),
    ("tokens_per_second", "half_the_middle", the_lower_one),
]
RIGHT = [
    ("diagnose", lower_case),
    ("diagnose", line_by_line),
    ("tokens_per_second", by_generator),
    ("tokens_per_second", by_tensor),
]
