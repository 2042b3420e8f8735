"""Order, augmentation, shares of ranks, and the two ways in which batches reach the model."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dtlib.data import open_images
from dtlib.data.batches import (
    Augmentation,
    DeviceImages,
    DeviceText,
    augmentation,
    crop_and_flip,
    order,
    split,
)
from dtlib.data.loader import LoaderImages, fits, image_source, seed_worker, worker_seed
from dtlib.errors import BadInput

# -- order and augmentation -----------------------------------------------------------------------


def test_an_order_is_a_permutation_and_each_epoch_has_another():
    epochs = [order(50, seed=0, epoch=e) for e in range(3)]
    assert all(sorted(e.tolist()) == list(range(50)) for e in epochs)
    assert len({tuple(e.tolist()) for e in epochs}) == 3
    assert torch.equal(order(50, 0, 1), epochs[1])
    assert not torch.equal(order(50, 1, 0), epochs[0])
    # Not a sum: seed 0 in epoch 1 is another order than seed 1 in epoch 0.
    assert not torch.equal(order(50, 0, 1), order(50, 1, 0))


def test_order_and_augmentation_neither_use_nor_move_the_global_generator():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = order(20, 0, 0), augmentation(20, 0, 0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(order(20, 0, 0), first[0])
    assert torch.equal(augmentation(20, 0, 0).offsets, first[1].offsets)


def test_augmentation_covers_all_crops_and_flips_half():
    drawn = augmentation(10_000, seed=3, step=7)
    assert drawn.offsets.shape == (10_000, 2)
    # Nine values each way, all of them: 10,000 draws miss one of 81 pairs with odds of 1e-52.
    assert len({tuple(o) for o in drawn.offsets.tolist()}) == 81
    assert (drawn.offsets.min(), drawn.offsets.max()) == (0, 8)
    assert drawn.flips.float().mean().item() == pytest.approx(0.5, abs=0.02)  # 4 × 0.5/sqrt(n)
    assert not torch.equal(augmentation(10_000, 3, 8).offsets, drawn.offsets)


def test_a_rank_takes_its_rows():
    whole = augmentation(8, 0, 0)
    parts = [whole.rows(slice(r * 4, r * 4 + 4)) for r in range(2)]
    assert torch.equal(torch.cat([p.offsets for p in parts]), whole.offsets)
    assert torch.equal(torch.cat([p.flips for p in parts]), whole.flips)


# -- shares of ranks ------------------------------------------------------------------------------


# field bugs 1.02 and 9.06
@pytest.mark.parametrize(("n", "world_size", "shares"), [
    (10, 3, [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]),
    (5, 3, [[0, 3], [1, 4], [2]]),
    (1, 4, [[0], [], [], []]),
    (0, 2, [[], []]),
])  # fmt: skip
def test_shares_are_disjoint_complete_and_not_padded(n, world_size, shares):
    assert [split(n, r, world_size).tolist() for r in range(world_size)] == shares


# field bug 9.06
@pytest.mark.parametrize("rank", [-1, 3])
def test_a_rank_outside_the_world_is_refused(rank):
    with pytest.raises(BadInput, match=f"rank {rank} is not one of 0 to 2"):
        split(10, rank, 3)


# -- pictures on the device -----------------------------------------------------------------------


def slowly(pixels: torch.Tensor, change: Augmentation) -> torch.Tensor:
    """Crop and flip one picture at a time with slices, the obvious way."""
    out = []
    changes = zip(change.offsets.tolist(), change.flips.tolist(), strict=True)
    for picture, ((row, column), flip) in zip(pixels, changes, strict=True):
        crop = F.pad(picture, (4, 4, 4, 4))[:, row : row + 32, column : column + 32]
        out.append(crop.flip(2) if flip else crop)
    return torch.stack(out)


def test_the_gather_crops_and_flips_what_slices_do():
    pixels = torch.arange(200 * 3 * 32 * 32).remainder(251).to(torch.uint8).view(200, 3, 32, 32)
    change = augmentation(200, 0, 0)
    assert torch.equal(crop_and_flip(pixels, change), slowly(pixels, change))
    centre = Augmentation(torch.full((200, 2), 4), torch.zeros(200, dtype=torch.bool))
    assert torch.equal(crop_and_flip(pixels, centre), pixels)


def test_device_pictures_are_those_of_torchvision():
    from torchvision.transforms import v2

    data = open_images("pictures", "train", count=30)
    theirs = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(data.mean, data.std)])
    x, y = DeviceImages(data).batch(torch.tensor([5, 2]))
    # uint8 scaled at once or in two steps: a rounding or two of numbers up to 3.
    torch.testing.assert_close(x, theirs(data.pixels[[5, 2]]), rtol=0, atol=1e-6)
    assert torch.equal(y, data.labels[[5, 2]])


def test_half_precision_is_the_full_one_rounded_once():
    source = DeviceImages(open_images("pictures", "train", count=8))
    indices, change = torch.arange(8), augmentation(8, 0, 0)
    full = source.batch(indices, change)[0]
    for dtype in (torch.bfloat16, torch.float16):
        assert torch.equal(source.batch(indices, change, dtype)[0], full.to(dtype))
    double = source.batch(indices, change, torch.float64)[0]
    assert double.dtype == torch.float64
    torch.testing.assert_close(full.double(), double, rtol=0, atol=1e-6)
    assert not torch.equal(full.double(), double), "fp64 was computed in fp32"


# -- the DataLoader path --------------------------------------------------------------------------


def plan(n: int, batch: int) -> list[tuple[torch.Tensor, Augmentation | None]]:
    sequence = order(n, 0, 0).split(batch)
    changes = [augmentation(len(indices), 0, step) for step, indices in enumerate(sequence)]
    return [*zip(sequence, changes, strict=True), (torch.arange(3), None)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dataloader_gives_the_same_pictures_to_the_bit(workers, dtype):
    data = open_images("pictures", "train", count=50)
    steps = plan(50, 16)
    device = list(DeviceImages(data).batches(steps, dtype))
    loader = list(LoaderImages(data, workers=workers).batches(steps, dtype))
    assert len(device) == len(loader) == 5  # 16, 16, 16, 2 and 3 pictures
    for (x, y), (x2, y2) in zip(device, loader, strict=True):
        assert x.dtype == dtype
        assert torch.equal(x, x2)
        assert torch.equal(y, y2)


class FirstDraws(torch.utils.data.Dataset):
    """Give what each of a worker's three generators draws first."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), torch.rand(1).item()


# field bug 1.14
def test_no_two_workers_of_any_rank_draw_the_same():
    from functools import partial

    draws = []
    for rank in range(2):
        torch.manual_seed(0)  # what makes models equal and, left alone, workers too
        loader = torch.utils.data.DataLoader(
            FirstDraws(),
            batch_size=1,
            num_workers=2,
            worker_init_fn=partial(seed_worker, seed=0, rank=rank, epoch=0),
        )
        draws += [tuple(float(v) for v in sample) for sample in loader]
    assert len(draws) == 4
    for generator in zip(*draws, strict=True):
        assert len(set(generator)) == 4


def test_worker_seeds_are_distinct():
    seeds = {
        worker_seed(seed, rank, epoch, worker)
        for seed in range(3)
        for rank in range(8)
        for epoch in range(3)
        for worker in range(8)
    }
    assert len(seeds) == 3 * 8 * 3 * 8


def test_what_does_not_fit_goes_through_the_dataloader(monkeypatch):
    data = open_images("pictures", "train", count=10)
    needed = 10 * (3 * 32 * 32 + 8)
    assert fits(data, "cpu")
    assert fits(data, "cuda", free=2 * needed)
    assert not fits(data, "cuda", free=2 * needed - 1)
    assert isinstance(image_source(data), DeviceImages)
    assert isinstance(image_source(data, how="dataloader", workers=0), LoaderImages)
    monkeypatch.setattr("dtlib.data.loader.fits", lambda *_: False)
    assert isinstance(image_source(data), LoaderImages)
    with pytest.raises(BadInput, match="loader 'disk' is unknown"):
        image_source(data, how="disk")
    with pytest.raises(BadInput, match="-1 workers"):
        image_source(data, how="dataloader", workers=-1)


# -- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 8, 9, 10, 12, 13])
def test_every_token_but_the_first_is_a_target_exactly_once(n):
    tokens = torch.arange(100, 100 + n, dtype=torch.int32)
    source = DeviceText(tokens, context=4)
    x, y = source.batch(torch.arange(len(source)))
    assert x.shape == y.shape == (len(source), 4)
    assert x.dtype == y.dtype == torch.int64
    assert y[y != -100].tolist() == list(range(101, 100 + n))
    # A target is the token after its input.
    assert torch.equal(y[y != -100], x[y != -100] + 1)
    assert source.targets == n - 1
    assert source.complete == (n - 1) // 4
    assert len(source) == -(-(n - 1) // 4)
    assert not (y[: source.complete] == -100).any()


# field bug 9.04
def test_padding_is_by_place_and_not_by_token():
    """A token that is also used as padding stays a target: ends of text must be learnt."""
    _, y = DeviceText(torch.tensor([5, 6, 0, 7, 0, 0]), context=4).batch(torch.arange(2))
    assert y.tolist() == [[6, 0, 7, 0], [0, -100, -100, -100]]


def test_windows_come_in_the_order_asked_for():
    source = DeviceText(torch.arange(21), context=5)
    x, y = source.batch(torch.tensor([3, 0]))
    assert x.tolist() == [[15, 16, 17, 18, 19], [0, 1, 2, 3, 4]]
    assert y.tolist() == [[16, 17, 18, 19, 20], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize(("n", "context"), [(1, 4), (10, 0)])
def test_windows_need_tokens(n, context):
    with pytest.raises(BadInput, match=f"not {context} and {n}"):
        DeviceText(torch.arange(n), context)
