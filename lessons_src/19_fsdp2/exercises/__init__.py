"""The exercises of lesson 19."""

from . import accumulate, moves, muon, units

EXERCISES = {
    "shard": units.EXERCISE,
    "accumulate": accumulate.EXERCISE,
    "moves": moves.EXERCISE,
    "muon_step": muon.EXERCISE,
}
