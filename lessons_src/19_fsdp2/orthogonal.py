"""Newton–Schulz: the orthogonal matrix that is nearest to a matrix, by products alone.

K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024,
https://kellerjordan.github.io/posts/muon/. Muon takes five steps of a quintic, which bring singular
values only near 1; the cubic here converges, so that results can be compared to the digit.
"""

import torch


def orthogonalize(matrix: torch.Tensor, steps: int = 25) -> torch.Tensor:
    """Bring all singular values of a matrix [rows, columns] to 1, and keep its directions.

    Parameters
    ----------
    matrix
        A whole matrix; a shard of one has other singular values.
    steps
        Each multiplies a small singular value by 1.5; 25 are enough for those above 10⁻⁴ of the
        matrix's norm.
    """
    x = matrix / matrix.norm()
    for _ in range(steps):
        x = 1.5 * x - 0.5 * x @ x.T @ x
    return x
