"""Bytes that a rank sends in one optimizer step, by collective.

S. Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 7: a rank sends 2Ψ elements with data
parallelism, 2Ψ with stages 1 and 2, 3Ψ with stage 3 (for many ranks; exactly, (N-1)/N of that).
By default, DeepSpeed's stages 1 and 2 all-reduce the gradients, which the paper reduce-scatters,
and then all-gather the weights: 3Ψ on a ring.

Payload is the larger of a call's input and output: the whole tensor. Wire is what one rank sends
on average if a ring implements the call. Symbols: Ψ parameters, N ranks.
"""

from dtlib.sim.collectives import ring_wire_bytes

# Bytes per element of weights and of gradients when they are sent.
TRAVELS = {"mixed": (2, 2), "autocast": (4, 4), "policy": (2, 4), "fp32": (4, 4), "fp64": (8, 8)}


def collective(name, carries, elements, ranks, size, times=1):
    """One row: what is called, what it carries, payload and wire bytes per rank and step."""
    payload = elements * size * times
    wire = ring_wire_bytes(name, payload, ranks)
    return {"collective": name, "carries": carries, "payload": payload, "wire": wire}


def copy(name, carries, elements, size, times=1):
    """One row of a copy over the bus to the host or to the disk: no ring, payload is what moves."""
    moved = elements * size * times
    return {"collective": name, "carries": carries, "payload": moved, "wire": moved}


def data_parallel(parameters, ranks, gradient):
    """Data parallel: gradients once per step, whatever the number of micro-batches."""
    return [collective("all_reduce", "gradients", parameters, ranks, gradient)]


def stage_1_or_2(parameters, ranks, weight, times, kept):
    """ZeRO 1 and 2: reduce gradients `times` times, gather the new weights once."""
    reduce = "all_reduce" if kept == "framework" else "reduce_scatter"
    return [
        collective(reduce, "gradients", parameters, ranks, weight, times),
        collective("all_gather", "new weights", parameters, ranks, weight),
    ]


def stage_3(parameters, ranks, weight, gradient, gathers, reductions, root=0):
    """ZeRO 3 and FSDP: gather for forward, gather for backward, reduce the gradients.

    Parameters
    ----------
    parameters, ranks, weight, gradient
        Ψ, N, bytes per element of weights and of gradients when they are sent.
    gathers, reductions
        How often per step: once per micro-batch; FSDP, as dtlib uses it, reduces once.
    root
        Elements that stay whole from forward to backward, as those of FSDP's root module do.
    """
    return [
        collective("all_gather", "weights for forward", parameters, ranks, weight, gathers),
        collective("all_gather", "weights for backward", parameters - root, ranks, weight, gathers),
        collective("reduce_scatter", "gradients", parameters, ranks, gradient, reductions),
    ]


def hybrid(parameters, ranks, group, weight, gradient, gathers, root=0):
    """FSDP: stage 3 inside a group of ranks, an all-reduce of the shard between the groups."""
    rows = stage_3(parameters, group, weight, gradient, gathers, 1, root=root)
    shard = -(-parameters // group)
    rows.append(collective("all_reduce", "gradient shards", shard, ranks // group, gradient))
    return rows


def offloaded(parameters, ranks, weight, gradient, micro_batches):
    """Optimizer on the host: the rank's gradients go there, its new weights come back.

    J. Ren et al., "ZeRO-Offload", arXiv:2101.06840: 2Ψ + 2Ψ bytes with bf16 and one rank.
    DeepSpeed's stages 1 and 2 send gradients in fp32, as they wait on the host: 4Ψ + 2Ψ.
    """
    shard = -(-parameters // ranks)
    return [
        copy("to_host", "gradients", shard, gradient, micro_batches),
        copy("to_device", "new weights", shard, weight),
    ]


def on_disk(parameters, ranks, weight, optimizer, micro_batches):
    """Everything on NVMe: weights are read twice per micro-batch, the optimizer read and written.

    S. Rajbhandari et al., "ZeRO-Infinity", arXiv:2104.07857. `optimizer` is the bytes per parameter
    of the optimizer and of the fp32 copy.
    """
    shard = -(-parameters // ranks)
    return [
        copy("to_host", "gradients", shard, weight, micro_batches),
        copy("disk_read", "weights", shard, weight, 2 * micro_batches),
        copy("disk_write", "new weights", shard, weight),
        copy("disk_read", "optimizer", shard, optimizer),
        copy("disk_write", "optimizer", shard, optimizer),
    ]
