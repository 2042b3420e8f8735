"""What this machine can run (`doctor`), and lessons and scripts as jobs on Slurm (`batch`)."""
