"""Who waits for whom, by the flight records, stacks, logs and checksums of all ranks.

`evidence.gather` reads the files, `verdict.examine` compares the ranks, `record` writes such
files while a program runs under torchrun, and `spy` writes stacks of one that hangs already.
"""
