"""A kink makes small nudges large; a smooth activation does not."""

import pytest
import torch
from torch import nn

from dtlib.data import open_images

from .kink import amplification, gradient_of, small_network


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    images = open_images("pictures", "train", count=16)
    return images.pixels.double() / 255 - 0.5, images.labels


def test_without_a_kink_the_answer_is_linear_in_the_nudge(pictures) -> None:
    """Of a smooth function the change is ε times a constant, except for terms of order ε²."""
    small, large = (amplification(nn.GELU, nudge, *pictures) for nudge in (1e-8, 1e-5))
    assert small == pytest.approx(large, rel=1e-2)


def test_with_a_kink_a_larger_nudge_makes_it_jump(pictures) -> None:
    still, jumped = (amplification(nn.ReLU, nudge, *pictures) for nudge in (1e-9, 1e-4))
    assert jumped > 5 * still  # measured: 3 and 100


def test_the_gradient_is_that_of_a_difference_quotient(pictures) -> None:
    """Along the gradient itself the loss rises by its squared norm, to the order of the step."""
    model = small_network(nn.GELU)
    gradient = gradient_of(model, *pictures)
    start = nn.utils.parameters_to_vector(model.parameters()).detach()
    losses = []
    for step in (-1e-6, 1e-6):
        nn.utils.vector_to_parameters(start + step * gradient, model.parameters())
        losses.append(nn.functional.cross_entropy(model(pictures[0]), pictures[1]).item())
    assert (losses[1] - losses[0]) / 2e-6 == pytest.approx(float(gradient @ gradient), rel=1e-5)
