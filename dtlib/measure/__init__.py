"""What a run does, measured: bytes held and sent (`ledger`), time and its shares (`profiling`).

Why a run hangs, from what its ranks left behind, is in `clinic`. There are no formulas here
(`dtlib.sim` has them); `dtlib.study` sets the two side by side.
"""
