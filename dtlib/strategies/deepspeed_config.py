"""DeepSpeed's JSON: made from a `RunConfig`, or the user's own, checked and completed.

`make` returns what DeepSpeed gets, and what a run records in its config.json. In a user's own JSON,
"auto" stands for the value from `make`; a value that contradicts the run's settings is refused.
Keys: https://www.deepspeed.ai/docs/config-json
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.config.plan import BatchPlan, cut
from dtlib.errors import BadInput, counted, in_words
from dtlib.sim.states import STAGES
from dtlib.strategies.optim import BETAS

if TYPE_CHECKING:
    from dtlib.config import RunConfig

AUTO = "auto"
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

# Keys for what the loop does itself, or that would change the meaning of a gradient.
NOT_IN_A_JSON = {
    "scheduler": "the loop sets the learning rate of every step",
    "gradient_allreduce_op": "the loop expects the mean of the ranks' gradients",
    "managed_gradient_accumulation": "the loop says which micro-batch is the last",
}
# Keys of a user's JSON that a setting of the run decides too, with that setting.
BOTH_SAY = {
    ("gradient_clipping",): "clip",
    ("fp16", "enabled"): "precision", ("bf16", "enabled"): "precision",
    ("optimizer", "type"): "optimizer", ("optimizer", "params", "lr"): "lr",
    ("optimizer", "params", "weight_decay"): "weight_decay",
    ("optimizer", "params", "momentum"): "momentum", ("optimizer", "params", "eps"): "adam_eps",
    ("optimizer", "params", "betas"): "optimizer", ("zero_optimization", "stage"): "strategy",
    ("zero_optimization", "offload_optimizer", "device"): "strategy",
    ("zero_optimization", "offload_param", "device"): "strategy",
}  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """What DeepSpeed's thresholds scale with: all parameters, the largest tensor, their count."""

    parameters: int
    largest: int
    tensors: int


def stage_of(config: RunConfig) -> int:
    """Return the ZeRO stage of a run.

    Raises `BadInput` when `zero_stage` contradicts the strategy's name.
    """
    stage = STAGES[config.strategy]
    if config.zero_stage in (None, stage) or (config.strategy, config.zero_stage) == ("offload", 3):
        return config.zero_stage or stage
    can = "2 or 3" if config.strategy == "offload" else str(stage)
    raise BadInput(
        f"strategy {config.strategy} is ZeRO stage {can}, not zero_stage {config.zero_stage};"
        " leave zero_stage out, or use the strategy of that stage."
    )


def make(
    config: RunConfig,
    plan: BatchPlan,
    sizes: Sizes,
    *,
    compiled_adam: bool = False,
    on_gpu: bool = False,
) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a run.

    DeepSpeed's own thresholds and buckets are meant for billions of parameters: with
    them, a small model would stay whole instead of being sharded, in buffers larger than itself.
    Here they are shares of the model, but at most DeepSpeed's values.

    Parameters
    ----------
    config
        Resolved: learning rate and weight decay are numbers.
    compiled_adam
        Whether the optimizer on the CPU is DeepSpeed's own, which is compiled; otherwise torch's.
    on_gpu
        Whether the model is on a GPU, to which pinned memory copies faster.
    """
    made: dict[str, Any] = {
        **dict(zip(BATCH, (plan.global_batch, plan.micro_batch, plan.accumulation), strict=True)),
        "gradient_clipping": config.clip or 0.0,
        "optimizer": _optimizer(config, compiled_adam),
        "zero_optimization": _zero(config, sizes, on_gpu),
        "zero_allow_untested_optimizer": config.optimizer == "sgd",
        "bf16": {"enabled": config.precision == "bf16"},
        "fp16": {"enabled": config.precision == "fp16"},
    }
    if config.precision == "fp16":  # as torch's GradScaler: halve at once, double after 2,000 steps
        made["fp16"] |= {"initial_scale_power": 16, "loss_scale_window": 2000, "hysteresis": 1}
    if config.strategy == "infinity":
        made["aio"] = {"block_size": _bounded(sizes.largest, 4096, 2**20), "queue_depth": 8}
    return made


def _optimizer(config: RunConfig, compiled_adam: bool) -> dict[str, Any]:
    # Only matrices are decayed; the parameter groups for that cannot be given in a JSON
    params: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    if config.optimizer == "sgd":
        return {"type": "SGD", "params": {**params, "momentum": config.momentum}}
    params |= {"betas": list(BETAS), "eps": config.adam_eps}
    return {"type": "AdamW", "params": {**params, "torch_adam": not compiled_adam}}


def _zero(config: RunConfig, sizes: Sizes, on_gpu: bool) -> dict[str, Any]:
    stage, bucket = stage_of(config), _bounded(sizes.parameters // 4, 2, 500_000_000)
    zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": bucket}
    if stage < 3:
        zero["allgather_bucket_size"] = bucket
    else:
        zero |= {
            "stage3_prefetch_bucket_size": min(sizes.parameters // 10, 50_000_000),
            "stage3_param_persistence_threshold": min(sizes.parameters // 10_000, 100_000),
            "stage3_max_live_parameters": _bounded(sizes.parameters // 2, 1, 1_000_000_000),
            "stage3_max_reuse_distance": min(sizes.parameters // 10, 1_000_000_000),
        }
    if config.strategy == "offload":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": on_gpu}
    if config.strategy == "infinity":
        # no prefetching: DeepSpeed 0.19 fails if it meets a tensor twice, as in the forward and
        # backward of the last layer
        zero["stage3_prefetch_bucket_size"] = 0
        zero["sub_group_size"] = _bounded(sizes.parameters // 16, 2, 1_000_000_000)
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": config.nvme}
        buffers = {"buffer_size": sizes.largest, "buffer_count": min(sizes.tensors, 64)}
        zero["offload_param"] = {**zero["offload_optimizer"], "max_in_cpu": 0, **buffers}
    return zero


def _bounded(value: int, least: int, most: int) -> int:
    """Return an even number near `value`, between two even bounds: DeepSpeed halves some."""
    return min(max(value + value % 2, least), most)


def read(path: str | Path) -> dict[str, Any]:
    """Read a user's own JSON.

    Raises `BadInput` when there is no such file, or it does not hold one JSON object.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise BadInput(f"deepspeed {path} cannot be read: {in_words(error)}.") from error
    if not isinstance(content, dict):
        raise BadInput(f"deepspeed {path} must hold one JSON object, {{…}}.")
    return content


def resolve_batch(own: dict[str, Any], world_size: int) -> BatchPlan | None:
    """Return how a user's JSON divides the batch over `world_size` ranks; None if it does not.

    DeepSpeed's identity: train_batch_size = train_micro_batch_size_per_gpu
    × gradient_accumulation_steps × ranks. What is absent or "auto" follows from the rest.

    Raises `BadInput` when the numbers contradict each other or the number of ranks.
    """
    given = [None if own.get(key, AUTO) == AUTO else own[key] for key in BATCH]
    for key, value in zip(BATCH, given, strict=True):
        if value is not None and (type(value) is not int or value < 1):
            raise BadInput(f'{key} is {value!r}; it must be a whole number from 1 on, or "auto".')
    if given[0] is None and given[1] is None:
        return None
    return cut(given[0], given[1], given[2], world_size)


def fill_in(own: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    """Return a user's JSON with every "auto" and every missing key filled in from `made`."""
    filled = {**made, **own}
    for key, value in own.items():
        if isinstance(value, dict) and isinstance(made.get(key), dict):
            filled[key] = fill_in(value, made[key])
        elif value == AUTO:
            if key not in made:
                raise BadInput(f'{key} is "auto", but dtlib has no value for it; set it.')
            filled[key] = made[key]
    return filled


def refuse_contradictions(
    own: dict[str, Any], made: dict[str, Any], config: RunConfig, mine: BatchPlan
) -> None:
    """Refuse a user's JSON that contradicts the run's settings; see `make`.

    Raises `BadInput` with the first contradiction, its two values and what to change.
    """
    path = config.deepspeed
    for key, why in NOT_IN_A_JSON.items():
        if key in own:
            raise BadInput(f"deepspeed {path} has {key}, but {why}; remove it.")
    try:
        plan = resolve_batch(own, mine.world_size)
    except BadInput as error:
        raise BadInput(f"deepspeed {path}: {error}") from error
    if plan is not None and plan != mine:
        raise BadInput(
            f"deepspeed {path} divides a global batch of {plan.global_batch} into micro-batch"
            f" {plan.micro_batch} × accumulation {plan.accumulation} ×"
            f" {counted(plan.world_size, 'rank')}, but this run {mine.global_batch} into"
            f" {mine.micro_batch} × {mine.accumulation} ×"
            f' {mine.world_size}; make them equal, or write "auto" into the file.'
        )
    for keys, setting in BOTH_SAY.items():
        theirs, ours = _at(own, keys), _at(made, keys)
        if theirs not in (None, AUTO) and not _same(theirs, ours):
            raise BadInput(
                f"deepspeed {path} has {'.'.join(keys)} {theirs}, but this run's {setting}"
                f" {getattr(config, setting)} means {'none' if ours is None else ours}; make them"
                ' equal, or write "auto" into the file.'
            )


def _same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, str) and isinstance(ours, str):
        return theirs.lower() == ours.lower()
    return theirs == ours or (theirs == "none" and ours is None)


def _at(tree: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
