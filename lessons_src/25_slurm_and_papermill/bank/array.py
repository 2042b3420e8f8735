"""Answers to lesson 25's exercises in Python: an array's runs, and what to do about a job."""

import itertools

# --- 25.3 array_run ---------------------------------------------------------------------------


def begins_at_one(index, axes, repeats):
    runs = [*itertools.product(*axes.values())]
    return {
        **dict(zip(axes, runs[1:][index - 1 if index else len(runs)], strict=True)),
        "repeat": 0,
    }


def no_return(index, axes, repeats):
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]


def without_repeats(index, axes, repeats):
    runs = [dict(zip(axes, run, strict=True)) for run in itertools.product(*axes.values())]
    return {**runs[index], "repeat": 0} if index < len(runs) else None


def a_tuple(index, axes, repeats):
    return (*(values[index % len(values)] for values in axes.values()), 0)


def forgets_the_repeat(index, axes, repeats):
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return settings if index < repeats else None


def pops(index, axes, repeats):
    return {**{name: values.pop(0) for name, values in axes.items()}, "repeat": 0}


def counts_from_one(index, axes, repeats):
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return {**settings, "repeat": index + 1} if index < repeats else None


def repeat_is_the_index(index, axes, repeats):
    return {**{name: values[index % len(values)] for name, values in axes.items()},
            "repeat": index}  # fmt: skip


def places_for_values(index, axes, repeats):
    settings = {}
    for name, values in axes.items():
        index, settings[name] = divmod(index, len(values))
    return {**settings, "repeat": index} if index < repeats else None


def one_dict_for_all(index, axes, repeats):
    run, runs = {}, []
    for repeat, *values in itertools.product(range(repeats), *axes.values()):
        run.update(zip([*axes, "repeat"], [*values, repeat], strict=True))
        runs.append(run)
    return runs[index] if index < len(runs) else None


def nothing_is_a_dict(index, axes, repeats):
    return by_product(index, axes, repeats) or {}


def in_step(index, axes, repeats):
    count = 1
    for values in axes.values():
        count *= len(values)
    settings = {name: values[index % len(values)] for name, values in axes.items()}
    return {**settings, "repeat": index // count} if index < count * repeats else None


def halves_for_every_axis(index, axes, repeats):
    settings, stride, count = {}, 1, 1
    for name, values in axes.items():
        settings[name] = values[index // stride % len(values)]
        stride, count = 2 * stride, count * len(values)
    return {**settings, "repeat": index // count} if index < count * repeats else None


def repeats_first(index, axes, repeats):
    index, repeat = divmod(index, repeats)
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return None if index else {**settings, "repeat": repeat}


def round_again(index, axes, repeats):
    settings = {}
    for name, values in axes.items():
        index, place = divmod(index, len(values))
        settings[name] = values[place]
    return {**settings, "repeat": index % repeats}


def stops_beyond(index, axes, repeats):
    runs = [
        {**dict(zip(axes, run, strict=True)), "repeat": repeat}
        for repeat in range(repeats)
        for run in itertools.product(*axes.values())
    ]
    return runs[index]


def last_axis_first(index, axes, repeats):
    settings = {}
    for name in reversed(axes):
        index, place = divmod(index, len(axes[name]))
        settings[name] = axes[name][place]
    return {"repeat": index, **settings} if index < repeats else None


def by_product(index, axes, repeats):
    runs = [*itertools.product(range(repeats), *axes.values())]
    if index >= len(runs):
        return None
    repeat, *values = runs[index]
    return dict(zip([*axes, "repeat"], [*values, repeat], strict=True))


# --- 25.4 next_step ---------------------------------------------------------------------------


def as_a_dict(job):
    return "done" if job["state"] == "COMPLETED" else "mend"


def silent(job):
    if job.state == "FAILED":
        return "mend"


def a_truth(job):
    return job.state == "COMPLETED"


def only_fresh_ones_are_done(job):
    return "mend" if job.began_at and job.step == job.steps else reference(job)


def restarts_all(job):
    return "done" if job.state == "COMPLETED" and job.step == job.steps else "again"


def believes_the_state(job):
    return "done" if job.state == "COMPLETED" else reference(job)


def counts_steps_alone(job):
    return "done" if job.step >= job.steps else reference(job)


def failed_is_failed(job):
    return "mend" if job.state == "FAILED" else reference(job)


def fears_lost_nodes(job):
    return "mend" if job.state == "NODE_FAIL" else reference(job)


def fears_time_outs(job):
    return "mend" if job.state == "TIMEOUT" else reference(job)


def forgets_preemption(job):
    return "mend" if job.state == "PREEMPTED" else reference(job)


def hopes_for_memory(job):
    return "again" if job.state == "OUT_OF_MEMORY" else reference(job)


def in_a_circle(job):
    return "again" if job.state == "TIMEOUT" else reference(job)


def believes_75(job):
    return "again" if job.exit_code == 75 else reference(job)


def reference(job):
    if (job.state, job.exit_code) == ("COMPLETED", 0):
        return "done" if (job.step, job.ran) == (job.steps, job.cells) else "mend"
    outside = job.exit_code == 75 or job.state in {"TIMEOUT", "NODE_FAIL", "PREEMPTED"}
    return "again" if outside and job.began_at < job.step else "mend"


def by_lists(job):
    if job.state == "COMPLETED":
        whole = job.step >= job.steps and job.ran >= job.cells and not job.exit_code
        return ("mend", "done")[whole]
    if job.step <= job.began_at or job.state == "OUT_OF_MEMORY":
        return "mend"
    return "mend" if job.state == "FAILED" and job.exit_code != 75 else "again"


WRONG = [
    ("array_run", "first", begins_at_one),
    ("array_run", "none", no_return),
    ("array_run", "none_within", without_repeats),
    ("array_run", "kind", a_tuple),
    ("array_run", "keys", forgets_the_repeat),
    ("array_run", "changed", pops),
    ("array_run", "repeat_from_1", counts_from_one),
    ("array_run", "repeat", repeat_is_the_index),
    ("array_run", "no_such_value", places_for_values),
    ("array_run", "in_step", in_step),
    ("array_run", "lost", halves_for_every_axis),
    ("array_run", "one_for_all", one_dict_for_all),
    ("array_run", "not_none", nothing_is_a_dict),
    ("array_run", "one_after_another", repeats_first),
    ("array_run", "beyond", round_again),
    ("array_run", "raises_beyond", stops_beyond),
    ("next_step", "none", silent),
    ("next_step", "no_dict", as_a_dict),
    ("next_step", "word", a_truth),
    ("next_step", "all_well", only_fresh_ones_are_done),
    ("next_step", "a_bug", restarts_all),
    ("next_step", "code_lost", believes_the_state),
    ("next_step", "one_cell", counts_steps_alone),
    ("next_step", "asked_for_it", failed_is_failed),
    ("next_step", "lost_node", fears_lost_nodes),
    ("next_step", "timed_out", fears_time_outs),
    ("next_step", "preempted", forgets_preemption),
    ("next_step", "no_memory", hopes_for_memory),
    ("next_step", "circle", in_a_circle),
    ("next_step", "asked_in_circles", believes_75),
]
RIGHT = [
    ("array_run", last_axis_first),
    ("array_run", by_product),
    ("next_step", reference),
    ("next_step", by_lists),
]
