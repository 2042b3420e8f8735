"""What a wire log calls the methods of `torch.distributed.ProcessGroup`, and what it notes."""

# Names of ProcessGroup's methods and what torch.distributed calls them; no version has them all.
COLLECTIVES = {
    "allreduce": "all_reduce", "broadcast": "broadcast", "reduce": "reduce", "gather": "gather",
    "allgather": "all_gather", "scatter": "scatter",
    "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single", "all_to_all_single": "all_to_all_single",
    "_allgather_base": "all_gather_into_tensor", "_reduce_scatter_base": "reduce_scatter_tensor",
    # torch 2.14's names for the last two
    "all_gather_single": "all_gather_into_tensor", "reduce_scatter_single": "reduce_scatter_tensor",
}  # fmt: skip
# Those that take several tensors at once, and which argument has what a log notes of them.
COALESCED = {
    "allreduce_coalesced": ("all_reduce", 0), "allgather_coalesced": ("all_gather", 1),
    "allgather_into_tensor_coalesced": ("all_gather_into_tensor", 0),
    "all_gather_single_coalesced": ("all_gather_into_tensor", 0),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter_tensor", 0),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor", 0),
}  # fmt: skip
# Collectives of which a log notes the whole tensor; of the others it notes one shard.
WHOLE = ("all_reduce", "all_gather_into_tensor", "broadcast", "reduce", "all_to_all_single")
