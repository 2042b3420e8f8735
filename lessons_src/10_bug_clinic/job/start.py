"""Start patient p05 as a task of a Slurm job: `srun --label python start.py PORT`."""

import os
import sys

import torch.distributed as dist
from p05 import patient

rank, n = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512")  # one node
dist.init_process_group("gloo", rank=rank, world_size=n)
print(f"start: {n} ranks have met", flush=True)
print(patient(rank, n, port=int(sys.argv[1])))
