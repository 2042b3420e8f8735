"""Tensor parallelism by hand: every rank computes a part of each layer, for the same tokens."""

from dtlib.scratch.tensor_parallel.attention import Attention
from dtlib.scratch.tensor_parallel.clip import clip_global_norm, global_norm
from dtlib.scratch.tensor_parallel.cross_entropy import vocabulary_cross_entropy
from dtlib.scratch.tensor_parallel.edges import SEQUENCE, TENSOR, Edges
from dtlib.scratch.tensor_parallel.embedding import VocabularyEmbedding
from dtlib.scratch.tensor_parallel.gpt import Block, TensorParallelGPT
from dtlib.scratch.tensor_parallel.linear import ColumnLinear, RowLinear
from dtlib.scratch.tensor_parallel.mlp import MLP
from dtlib.scratch.tensor_parallel.operators import f, f_sequence, g, g_sequence
from dtlib.scratch.tensor_parallel.parameters import Cut, Partial, first_of_own, own, sum_partial
from dtlib.scratch.tensor_parallel.sequence import Dropout, Norm

__all__ = [
    "MLP",
    "SEQUENCE",
    "TENSOR",
    "Attention",
    "Block",
    "ColumnLinear",
    "Cut",
    "Dropout",
    "Edges",
    "Norm",
    "Partial",
    "RowLinear",
    "TensorParallelGPT",
    "VocabularyEmbedding",
    "clip_global_norm",
    "f",
    "f_sequence",
    "first_of_own",
    "g",
    "g_sequence",
    "global_norm",
    "own",
    "sum_partial",
    "vocabulary_cross_entropy",
]
