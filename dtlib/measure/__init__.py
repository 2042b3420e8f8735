"""What a run does, measured: bytes held and sent (`ledger`), time and its shares (`profiling`).

There are no formulas here (`dtlib.sim` has them); `dtlib.study` sets the two side by side.
"""
