"""How much a padded score is off: against torch's own sampler, and on paper."""

import pytest
from torch.utils.data import DistributedSampler

from .what_if import padding, rows_dealt


@pytest.mark.parametrize("samples", [1, 5, 10, 64])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64])
def test_as_many_rows_as_torchs_sampler_deals(samples: int, ranks: int) -> None:
    hands = [list(DistributedSampler(range(samples), ranks, rank)) for rank in range(ranks)]
    assert rows_dealt(samples, ranks) == sum(map(len, hands))


def test_the_error_is_the_share_of_the_repeated_rows() -> None:
    """Ten on three are twelve rows, two of them repeated: 2/12 of 30 points."""
    told = padding(10, 3, 30)
    assert told["point"] == [3, 5.0]
    assert "10 samples on 3 ranks: 12 rows, 2 too many" in told["says"]
    assert [3, 5.0] in told["curves"]["padded"]
    assert {y for _, y in told["curves"]["exact"]} == {0.0}


def test_nothing_is_off_where_the_ranks_divide_the_samples() -> None:
    assert padding(64, 8, 50)["point"] == [8, 0.0]
