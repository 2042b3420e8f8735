"""Machines and jobs: what this machine can run (`doctor`), lessons and scripts on Slurm (`batch`)."""
