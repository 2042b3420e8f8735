"""Expert parallelism by hand: the experts are on different ranks, and the tokens travel to them."""

from dtlib.scratch.experts.balance import balance_loss, load_of
from dtlib.scratch.experts.capacity import Places, places
from dtlib.scratch.experts.exchange import combine, dispatch
from dtlib.scratch.experts.mixture import Account, Mixture, balance_of, shared
from dtlib.scratch.experts.router import Router, Routing

__all__ = [
    "Account",
    "Mixture",
    "Places",
    "Router",
    "Routing",
    "balance_loss",
    "balance_of",
    "combine",
    "dispatch",
    "load_of",
    "places",
    "shared",
]
