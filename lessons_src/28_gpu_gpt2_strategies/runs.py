"""What lesson 28 runs, what its rows share, and what a strategy brings with it."""

import dataclasses
import json
import re
from typing import Any

from dtlib.config.files import write_atomically
from dtlib.sim import flops, hardware, shapes, states
from dtlib.study import strategies

MULTIPLE = 128  # GPUs multiply whole tiles: 50,257, which is odd, is padded to 50,304
BRINGS = ["recipe", "fused", "overlap"]


def shared(full, world, data="", compiled=False):
    """The settings that all runs share: at full size, GPT-2's own tokens and padded vocabulary."""
    batch = {"global_batch": 4 * world, "micro_batch": 4}
    if compiled:
        batch["compile"] = True
    if not full:
        longest = 600 if compiled else 60  # ranks wait for one another's compiler
        small = {"max_length": 32, "num_samples": 96, "steps": 6, "timeout": longest}
        return {"task": "text", "data": data or "grammar", "precision": "fp32", **batch, **small}
    own = {} if data == "grammar" else {"tokenizer": "gpt2"}  # the grammar has its own words
    tokens = {**own, "pad_vocab_to": MULTIPLE}
    found = {"task": "text", "data": data or "wikitext2", **tokens, "precision": "bf16"}
    return {**found, **batch, "steps": 20, "timeout": 600}


def plans(settings, world, names, folder, full):
    """The runs of a study in `folder`; DeepSpeed's ask for two things that other rows have anyway.

    One is torch's fused AdamW, which only updates what is on the device. The other, at full size,
    is to reduce gradients while backward still runs: by default DeepSpeed's stages 1 and 2 do not.
    """
    found = []
    for one in strategies.plans(settings, [world], names):
        if one.config.mesh is not None:  # fsdp beside tensor parallelism is lesson 13's subject
            continue
        own: dict[str, Any] = {}
        if one.config.strategy in ("zero1", "zero2", "zero3"):
            own["optimizer"] = {"params": {"fused": True}}
        if full and one.config.strategy in ("zero1", "zero2", "zero3", "offload"):
            own["zero_optimization"] = {"overlap_comm": True}
        if own:
            file = folder.resolve() / f"{one.config.strategy}.json"
            write_atomically(file, json.dumps(own))
            config = dataclasses.replace(one.config, deepspeed=str(file))
            one = dataclasses.replace(one, config=config)
        found.append(one)
    return found


def brings(config):
    """What a run's strategy brings besides its settings: `BRINGS`, from its config.json.

    `recipe`, a key of `dtlib.sim.states.RECIPES`, says in how many bits weights, gradients and
    moments are kept; `overlap` is None on a single rank, which exchanges nothing.
    """
    name, engine = config["strategy"], config.get("framework", {}).get("deepspeed")
    found = {"recipe": states.recipe(name, config["precision"]), "fused": True}
    found["overlap"] = None if config["world_size"] == 1 else True
    if engine:
        zero = engine["zero_optimization"]
        found["fused"] = bool(engine["optimizer"]["params"].get("fused"))
        found["overlap"] = bool(zero.get("overlap_comm", zero["stage"] == 3))
    return found


def flop_per_token(model, sequence, entries):
    """The FLOP of a token in this GPT, forward and backward.

    `entries` is the size of the vocabulary with its padding, which is computed as well.
    """
    shape = shapes.GPT[model]
    return flops.gpt_step(1, sequence, shape["layers"], shape["width"], entries)[0]


def mfu(row, sequence, entries):
    """The share of its GPUs' peak that a run reaches; None if `hardware` does not know that peak.

    `entries` is as in `flop_per_token`.
    """
    known = (
        one["peak"].get(row["precision"])
        for one in hardware.DEVICES.values()
        if "board" in one and re.search(one["board"], row["device"] or "")
    )
    peak = next(known, None)
    if not peak or not row["throughput"]:
        return None
    done = row["throughput"] * flop_per_token(row["model"], sequence, entries)
    return done / (row["world_size"] * peak)
