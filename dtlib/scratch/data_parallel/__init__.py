"""Data parallel by hand, in four versions: naive, flat, buckets, and overlap with backward."""

from dtlib.scratch.data_parallel.buckets import assign_buckets, bucket_all_reduce
from dtlib.scratch.data_parallel.delayed_link import DelayedLink
from dtlib.scratch.data_parallel.flat import average, flat_all_reduce, pack, unpack
from dtlib.scratch.data_parallel.naive import average_gradients, same_start
from dtlib.scratch.data_parallel.overlap import OverlappedDataParallel

__all__ = [
    "DelayedLink",
    "OverlappedDataParallel",
    "assign_buckets",
    "average",
    "average_gradients",
    "bucket_all_reduce",
    "flat_all_reduce",
    "pack",
    "same_start",
    "unpack",
]
