import socket

import torch.distributed as dist


def patient(rank, n, port):
    """Serve the metrics of the run on one port of this machine."""
    server = socket.socket()
    server.bind(("127.0.0.1", port))
    server.listen()
    dist.barrier()
    server.close()
    return {"ended": 1.0}
