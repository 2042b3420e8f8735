"""What a rank sends in a step where data parallel is made to send less. Plain functions on numbers.

S. U. Stich, "Local SGD Converges Fast and Communicates Little", arXiv:1805.09767; A. Douillard et
al., "DiLoCo", arXiv:2311.08105; T. Vogels et al., "PowerSGD", arXiv:1905.13727, section 3.
"""

from dtlib.sim.tensors import elements
from dtlib.sim.traffic import collective


def local_steps(parameters, ranks, every, size):
    """Local SGD and DiLoCo: one all-reduce of Ψ numbers in H steps, as a step's row of `traffic`.

    Parameters
    ----------
    parameters, ranks
        Ψ and N.
    every
        H.
    size
        Bytes of an element.
    """
    return [collective("all_reduce", "weights", parameters, ranks, size, 1 / every)]


def factors(sizes, rank):
    """Elements of the two factors of a tensor of these sizes, `(left, right)`.

    A kernel of more dimensions counts as a matrix with its first as rows; the left factor belongs
    to the shorter side.
    """
    rows, columns = sizes[0], elements(sizes[1:])
    short, long = min(rows, columns), max(rows, columns)
    return min(rank, short) * short, min(rank, short) * long


def power_sgd(shapes, ranks, rank, size):
    """PowerSGD: two all-reduces in every step, as rows of `traffic`.

    Parameters
    ----------
    shapes
        Pairs `(name, sizes)`, as in `tensors`.
    ranks, rank
        N, and r, the columns of a factor.
    size
        Bytes of an element.
    """
    left = right = others = 0
    for _, sizes in shapes:
        if len(sizes) < 2:
            others += elements(sizes)
        else:
            of_left, of_right = factors(sizes, rank)
            left += of_left
            right += of_right
    return [
        collective("all_reduce", "left factors, and what is no matrix", left + others, ranks, size),
        collective("all_reduce", "right factors", right, ranks, size),
    ]
