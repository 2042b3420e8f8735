"""A launch of which one rank fails, and how its sentence names the others."""

import pytest
import rank_functions as on_ranks

from dtlib.ranks.launcher import RankFailed, launch

WAITING = r"ranks 0 and 2 were waiting in all_reduce of 4 float32 \(rank_functions.py:\d+\)"


def failure(how: str, **options: object) -> RankFailed:
    with pytest.raises(RankFailed) as caught:
        launch(on_ranks.fail_on_rank_1, how, ranks=3, show=False, **options)
    return caught.value
