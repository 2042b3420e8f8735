import socket

import torch
import torch.distributed as dist


def patient(rank, n):
    """Serve the metrics of the run on one port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = torch.tensor([probe.getsockname()[1]])
    dist.broadcast(port, src=0)
    server = socket.socket()
    server.bind(("127.0.0.1", int(port)))
    dist.barrier()
    server.close()
    return {"ended": 1.0}
