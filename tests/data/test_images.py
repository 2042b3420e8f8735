"""Pictures made from a seed, CIFAR-10 from its archive, and how a name or a folder is found."""

from pathlib import Path

import numpy as np
import pytest
import torch
from processes import python

from dtlib.data import open_images
from dtlib.data.cifar10 import CLASSES, RECORD_BYTES
from dtlib.errors import BadInput

INNER = "cifar-10-batches-bin"


# -- pictures -----------------------------------------------------------------------------------


def test_picture_i_is_the_same_however_many_are_made():
    many = open_images("pictures", "train", count=2300)
    few = open_images("pictures", "train", count=1100)
    assert many.pixels.shape == (2300, 3, 32, 32)
    assert (many.pixels.dtype, many.labels.dtype) == (torch.uint8, torch.int64)
    assert torch.equal(few.pixels, many.pixels[:1100])
    assert torch.equal(few.labels, many.labels[:1100])
    assert not torch.equal(many.pixels[:300], many.pixels[1000:1300])


def test_classes_are_balanced_and_named():
    data = open_images("pictures", "test", count=3000)
    assert data.labels[2000:].bincount().tolist() == [100] * 10
    assert len(set(data.classes)) == 10
    assert len(data) == 3000


def test_train_test_and_seeds_share_no_picture():
    sets = [
        open_images("pictures", split, count=1000, seed=seed).pixels
        for split in ("train", "test")
        for seed in (0, 1)
    ]
    assert len({p.numpy().tobytes() for pixels in sets for p in pixels}) == 4000


def test_the_stated_mean_and_deviation_are_those_of_the_pictures():
    data = open_images("pictures", "train", count=10_000)
    for channel in range(3):
        values = data.pixels[:, channel].double() / 255
        assert values.mean().item() == pytest.approx(data.mean[channel], abs=0.005)
        assert values.std().item() == pytest.approx(data.std[channel], abs=0.005)


def test_sizes_that_cannot_be_are_refused():
    with pytest.raises(BadInput, match=r"count of at least 1 .* not 0"):
        open_images("pictures", "train", count=0)
    with pytest.raises(BadInput, match="not 10 and -1"):
        open_images("pictures", "train", count=10, seed=-1)
    with pytest.raises(BadInput, match="split 'valid' is unknown"):
        open_images("pictures", "valid")


# -- CIFAR-10 -----------------------------------------------------------------------------------


def test_the_archive_gives_back_what_was_written(cifar_binary):
    made = open_images("pictures", "train", count=100)
    for folder in (cifar_binary, cifar_binary / INNER):
        read = open_images(str(folder), "train")
        assert torch.equal(read.pixels, made.pixels)
        assert torch.equal(read.labels, made.labels)
    test = open_images(str(cifar_binary), "test", count=7)
    assert torch.equal(test.pixels, open_images("pictures", "test", count=7).pixels)
    assert test.classes == CLASSES


def test_a_name_is_looked_up_in_the_data_folder(cifar_binary, monkeypatch):
    monkeypatch.setenv("DTLIB_DATA", str(cifar_binary))
    assert len(open_images("cifar10", "train")) == 100


def test_a_file_with_no_records_is_part_of_a_small_archive(cifar_binary):
    (cifar_binary / INNER / "data_batch_5.bin").write_bytes(b"")
    assert len(open_images(str(cifar_binary), "train")) == 80


def _cut(folder: Path) -> None:
    path = folder / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])


def _wrong_label(folder: Path) -> None:
    path = folder / "data_batch_3.bin"
    path.write_bytes(b"\x0a" + path.read_bytes()[1:])


def _missing(folder: Path) -> None:
    (folder / "data_batch_4.bin").unlink()


def _empty(folder: Path) -> None:
    for path in folder.glob("data_batch_*.bin"):
        path.write_bytes(b"")


@pytest.mark.parametrize(("damage", "sentence"), [
    (_cut, rf"data_batch_2\.bin has {20 * RECORD_BYTES - 1} bytes.*{RECORD_BYTES}.*again"),
    (_wrong_label, r"data_batch_3\.bin has the label 10, but"),
    (_missing, r"has no data_batch_4\.bin: unpack"),
    (_empty, r"has 0 train pictures, fewer than the 1"),
])  # fmt: skip
def test_a_damaged_archive_is_refused_in_one_sentence(cifar_binary, damage, sentence):
    damage(cifar_binary / INNER)
    with pytest.raises(BadInput, match=sentence) as caught:
        open_images(str(cifar_binary), "train")
    assert "\n" not in str(caught.value)


def test_more_pictures_than_there_are_is_refused(cifar_binary):
    with pytest.raises(BadInput, match="has 100 train pictures, fewer than the 101 requested"):
        open_images(str(cifar_binary), "train", count=101)


def test_a_missing_folder_says_where_it_looked_and_a_name_gets_the_nearest(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=f"no data folder {tmp_path}/none"):
        open_images(f"{tmp_path}/none", "train")
    with pytest.raises(BadInput, match=r"has no data_batch_1\.bin"):
        open_images(str(tmp_path), "train")
    monkeypatch.setenv("DTLIB_DATA", str(tmp_path / "a"))
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "b"))
    monkeypatch.chdir(tmp_path)
    places = f"{tmp_path}/a, {tmp_path}/b, {tmp_path}/data"
    with pytest.raises(BadInput, match=f"cifar10 was not found in {places}: run `dtlib fetch"):
        open_images("cifar10", "train")
    with pytest.raises(BadInput, match=r"'cifar-10': .* Did you mean 'cifar10'"):
        open_images("cifar-10", "train")


@pytest.mark.data
def test_real_pictures_pass_through_the_archive(real_data, tmp_path):
    """A part of the real CIFAR-10, written by the script beside it, is read as it is."""
    script = real_data / "to_cifar_binary.py"
    arguments = ["--train", "53", "--test", "20"]  # 53: the files hold 11, 11, 11, 11 and 9
    assert python(script, tmp_path, *arguments, timeout=60).returncode == 0
    data = open_images(str(tmp_path), "train")
    archive = np.load(real_data / "cifar10" / "cifar10_jpeg_bytes.npz", allow_pickle=False)
    assert data.labels.tolist() == archive["train_labels"][:53].tolist()
    assert data.classes == tuple(str(name) for name in archive["class_names"])
    assert len(open_images(str(tmp_path), "test")) == 20
    # The first training picture, a frog, has warm colours: red above blue.
    red, _, blue = data.pixels[0].double().mean((1, 2)).tolist()
    assert data.classes[data.labels[0]] == "frog"
    assert red > blue
