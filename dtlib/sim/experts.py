"""A mixture of experts on N ranks: capacity, load, dropped tokens, and what is sent.

Every rank has T tokens, and E/N of the E experts. A token goes to k experts. An expert takes C
tokens, its **capacity**, from each rank: so all messages are equally long, whatever is chosen.

D. Lepikhin et al., "GShard", arXiv:2006.16668, section 2.2; W. Fedus, B. Zoph, N. Shazeer, "Switch
Transformers", arXiv:2101.03961, section 2.2, equation 3. Plain functions on numbers.
"""

import math

from dtlib.sim.traffic import collective


def capacity(tokens, experts, k, factor):
    """C, the most tokens of one rank that an expert takes: factor times its fair share, kT/E.

    Rounded up, and never more than T, since a token goes to an expert once.

    Parameters
    ----------
    tokens, experts, k
        T of one rank, E and k.
    factor
        1 is enough if all experts get the same; more leaves room, and sends and computes more.
    """
    share = factor * k * tokens / experts
    return min(tokens, math.ceil(share - 1e-9))  # 1.1 x 10 is a little more than 11 in floats


def served(load, capacity):
    """What becomes of the choices for each expert, as a picture shows it.

    Parameters
    ----------
    load
        For each expert, how many tokens of one rank have chosen it.
    capacity
        C.

    Returns
    -------
    list
        `(kept, dropped, empty)` of each expert: tokens that it takes, tokens that find no place,
        and places that stay empty but are sent and computed all the same.
    """
    return [(min(n, capacity), max(0, n - capacity), max(0, capacity - n)) for n in load]


def traffic(tokens, width, experts, k, factor, ranks, size, layers=1):
    """What a rank sends for forward and backward, in the rows of `dtlib.sim.traffic`.

    Tokens go to the experts and back, their gradients the same way: four all-to-alls a layer, each
    of E·C vectors, empty places included.

    Parameters
    ----------
    tokens, width
        T of one rank, and h.
    size
        Bytes of an element.
    """
    elements = experts * capacity(tokens, experts, k, factor) * width
    return [
        collective("all_to_all", "tokens to experts and back", elements, ranks, size, 4 * layers)
    ]
