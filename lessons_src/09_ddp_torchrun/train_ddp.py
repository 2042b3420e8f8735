import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from dtlib.data import open_images
from dtlib.models.resnet import resnet18

epochs, data, folder = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])

# 1. Who am I, and which device is mine?
local_rank = int(os.environ["LOCAL_RANK"])
enough = torch.accelerator.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
accelerator = torch.accelerator.current_accelerator()  # None: torch for CPUs
if accelerator and enough and accelerator.type != "mps":
    device = torch.device(accelerator.type, local_rank)
    torch.accelerator.set_device_index(local_rank)
else:
    device = torch.device("cpu")
backend = dist.get_default_backend_for_device(device)
mine = None if device.type == "cpu" else device
dist.init_process_group(backend, device_id=mine)
rank, world_size = dist.get_rank(), dist.get_world_size()
if rank == 0:
    print(f"{world_size} ranks on {device.type}, backend {backend}")


def pictures(split):
    images = open_images(data, split, count=300)
    return TensorDataset(images.pixels / 255 - 0.5, images.labels)


# 2. Every rank opens all pictures and draws its own share of them. All ranks
# together still take some 50 for a step, so the learning rate can stay.
train, test = pictures("train"), pictures("test")
sampler = DistributedSampler(train, seed=0)
loader = DataLoader(train, batch_size=50 // world_size, sampler=sampler)

# 3. DDP starts all ranks from rank 0's weights, and averages gradients.
model = resnet18(width=8).to(device)
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)

first, checkpoint = 0, folder / "last.pt"
if checkpoint.exists():
    # 4. All ranks load, each onto its own device.
    saved = torch.load(checkpoint, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epochs"]

log = (folder / f"rank{rank}.log").open("a", buffering=1)  # each rank its own
for epoch in range(first, epochs):
    sampler.set_epoch(epoch)  # otherwise all epochs have the first one's order
    ddp.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} began with {list(sampler)[:5]}", file=log)

    # 5. Sums and counts travel, not means. The ranks' batch norms have seen
    # different pictures; ddp(x) first copies rank 0's averages to all ranks.
    ddp.eval()
    x, y = (tensor[rank::world_size].to(device) for tensor in test.tensors)
    with torch.no_grad():
        logits = ddp(x)
    hits = (logits.argmax(1) == y).sum()
    loss_sum = F.cross_entropy(logits, y, reduction="sum")
    sums = torch.tensor([loss_sum, hits, len(y)], device=device)
    dist.all_reduce(sums)

    # 6. One of all ranks writes; the others wait until the file is there.
    if rank == 0:
        loss_sum, hits, count = sums.tolist()
        score = f"test loss {loss_sum / count:.5f}, {hits:.0f} right"
        print(f"epoch {epoch}: {score} of {count:.0f}, {world_size} ranks")
        state = {"model": model.state_dict(), "epochs": epoch + 1}
        state["optimizer"] = optimizer.state_dict()
        torch.save(state, folder / "tmp.pt")  # a crash leaves the old one
        (folder / "tmp.pt").replace(checkpoint)
    dist.barrier()
dist.destroy_process_group()
