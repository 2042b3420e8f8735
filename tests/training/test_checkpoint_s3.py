"""Checkpoints on S3: a kill at any moment leaves the last whole one, and the rest is removed."""

import multiprocessing
import os
import random
import re
import sys

import boto3
import pytest
import requests
import torch

from dtlib import cli
from dtlib.training.checkpoint import bucket
from dtlib.training.checkpoint.checkpoints import Checkpoints
from dtlib.training.checkpoint.listing import list_checkpoints
from tests.s3_server import BUCKET, Moment, Relay, credentials, environment, s3_server
from tests.saved_checkpoints import assert_same_bits, content, save

LEAST_PART = 5 << 20  # bytes: S3 accepts no smaller part but the last
WEIGHTS = 3_000_000  # 12 MB, so three parts
BYTES = 12_000_000  # what a save sends at least

FORKS = multiprocessing.get_context("forkserver")  # which imports once for all children
FORKS.set_forkserver_preload(["tests.training.test_checkpoint_s3", "s3fs", "aiobotocore.session"])

CREATE, COMPLETE, DELETE = r"POST .*\?uploads", r"POST .*\?uploadId=", r"POST .*\?delete"
PHASES = [
    *(Moment(request=r"PUT .*rank0\.pt", at=at) for at in ("before", "half", "after")),
    *(Moment(request=CREATE, at=at) for at in ("before", "after")),
    *(Moment(request="partNumber=1&", at=at) for at in ("before", "half", "after")),
    *(Moment(request="partNumber=3&", at=at) for at in ("half", "after")),
    *(Moment(request=COMPLETE, at=at) for at in ("before", "half", "after")),
    *(Moment(request=r"PUT .*complete\.json", at=at) for at in ("before", "half", "after")),
    *(Moment(request=DELETE, at=at) for at in ("before", "after")),
]
RANDOM = [Moment(byte=random.Random(number).randrange(BYTES)) for number in range(10)]
# The marker has arrived, so the checkpoint counts although its saver never knew.
COUNTS = [r"POST .*\?delete", r"after PUT .*complete\.json"]


@pytest.fixture(scope="module")
def server():
    with s3_server() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def relay(server):
    relay = Relay(server)
    yield relay
    relay.close()


@pytest.fixture(autouse=True)
def shell(monkeypatch, server):
    monkeypatch.setattr(bucket, "PART", LEAST_PART)
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)


def save_large(env: dict[str, str], place: str, step: int) -> None:
    """Save a checkpoint of three parts, in a process of its own."""
    os.environ.update(env)
    bucket.PART = LEAST_PART
    Checkpoints(place).save(step, {"weights": torch.full((WEIGHTS,), float(step))}, {})


def save_and_be_killed(relay: Relay, moment: Moment, place: str, step: int) -> int | None:
    """Return the exit code of a process that saves through the relay and is killed there."""
    process = FORKS.Process(target=save_large, args=(environment(relay.endpoint), place, step))
    relay.arm(moment)
    process.start()
    relay.pid = process.pid
    process.join(60)
    relay.arm(Moment())
    return process.exitcode


def there(server: str, prefix: str) -> tuple[set[str], list[str]]:
    """The folders under a prefix that S3 really holds, and its unfinished uploads there."""
    client = boto3.client("s3", **credentials(server))
    objects = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    uploads = client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    keys = [one["Key"] for one in uploads if one["Key"].startswith(prefix)]
    return {one["Key"].split("/")[1] for one in objects}, keys


def prove(server: str, relay: Relay, moment: Moment, prefix: str) -> None:
    place = f"s3://{BUCKET}/{prefix}"
    saved = Checkpoints(place)
    for step in (1, 2):
        saved.save(step, content(step), {})
    assert save_and_be_killed(relay, moment, place, 3) == -9

    loaded, last = saved.latest(), 3 if any(one in str(moment) for one in COUNTS) else 2
    assert (loaded.step, loaded.notes) == (last, ())
    assert set(loaded.shared["weights"].tolist()) == {float(last)}
    saved.save(4, content(4), {})
    folders, uploads = there(server, f"{prefix}/")
    assert {name.partition("-again")[0] for name in folders} == {
        f"step-{last:08d}",
        "step-00000004",
    }
    assert uploads == []


def test_a_kill_in_the_middle_of_a_part_leaves_the_checkpoint_before(server, relay):
    prove(server, relay, Moment(request="partNumber=2&", at="half"), "part")


@pytest.mark.slow
@pytest.mark.parametrize("moment", [*PHASES, *RANDOM], ids=str)
def test_a_kill_at_any_moment_leaves_the_last_whole_checkpoint(server, relay, moment):
    prove(server, relay, moment, f"kill-{[*PHASES, *RANDOM].index(moment)}")


def test_a_first_save_that_was_killed_leaves_nothing_to_resume_from(server, relay):
    place = f"s3://{BUCKET}/first"
    moment = Moment(request=r"PUT .*complete\.json", at="before")
    assert save_and_be_killed(relay, moment, place, 1) == -9
    assert Checkpoints(place).latest() is None
    said = list_checkpoints(place, clean=True)
    assert said[0].startswith("step-00000001 (2 files, ")
    assert said[-1] == "removed: 1; kept: 0"
    assert there(server, "first/") == (set(), [])


def test_a_damaged_object_is_named_and_cleaning_keeps_what_is_whole(server):
    place = f"s3://{BUCKET}/damaged"
    save(place, 1, 2)
    client = boto3.client("s3", **credentials(server))
    client.put_object(Bucket=BUCKET, Key="damaged/step-00000002/shared.pt", Body=b"half")
    with pytest.warns(UserWarning, match=r"step-00000002 is skipped: shared.pt has 4 bytes"):
        loaded = Checkpoints(place).latest()
    assert (loaded.step, loaded.path) == (1, f"{place}/step-00000001")
    other, whole, removed = list_checkpoints(place, clean=True)
    assert "does not count, shared.pt has 4 bytes instead of" in other
    assert whole.startswith("step-00000001: whole, ")
    assert removed == "removed: 1; kept: 1"
    assert there(server, "damaged/")[0] == {"step-00000001"}


TRAIN = (
    "train text --strategy single --global-batch 4 --max-length 16 --num-samples 64"
    " --checkpoint-every 2"
)


@pytest.mark.slow
def test_a_run_is_resumed_from_s3_with_the_same_bits_where_its_folder_is_gone(
    server, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    train = f"{TRAIN} --schedule constant --checkpoints s3://{BUCKET}/run".split()
    assert cli.main([*train, "--steps", "2", "--out", "one"]) == 0
    assert cli.main([*train, "--steps", "4", "--out", "two"]) == 2
    said = capsys.readouterr().err
    assert f"s3://{BUCKET}/run already holds a run's checkpoints: add --resume" in said
    assert cli.main([*train, "--steps", "4", "--out", "two", "--resume"]) == 0
    assert "after step 2, from step-00000002" in capsys.readouterr().out
    assert not (tmp_path / "one" / "checkpoints").exists()
    assert cli.main(["export", "one", "weights"]) == 0  # its config.json says where they are
    assert "Exporting the weights of step 4" in capsys.readouterr().err
    straight = [*TRAIN.split(), "--schedule", "constant", "--steps", "4", "--out", "straight"]
    assert cli.main(straight) == 0
    there = Checkpoints(tmp_path / "straight" / "checkpoints").latest()
    assert_same_bits(Checkpoints(f"s3://{BUCKET}/run").latest().shared["strategy"],
                     there.shared["strategy"])  # fmt: skip
    assert cli.main(["checkpoints", "two"]) == 0
    assert "step-00000004: whole, " in capsys.readouterr().out


REFUSED = {
    "no bucket": ({}, "s3://nowhere/run", 2, r"there is no bucket 'nowhere' at http.*aws s3 mb"),
    "no prefix": ({}, "s3://runs", 2, r"must be a folder, or s3://BUCKET/PREFIX"),
    "another scheme": ({}, "gs://runs/run", 2, r"checkpoints is 'gs://runs/run'; it must be a fol"),
    "no credentials": (
        {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "s3://runs/run", 69,
        r"needs credentials, and there are none that work .*set AWS_ACCESS_KEY_ID"
    ),
    "nobody there": (
        {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "s3://runs/run", 69,
        r"http://127.0.0.1:9 did not answer .*check the network and AWS_ENDPOINT_URL"
    ),
    "no address": (
        {"AWS_ENDPOINT_URL": "nonsense"}, "s3://runs/run", 2,
        r"Invalid endpoint: nonsense: correct AWS_ENDPOINT_URL"
    ),
    "no package": ({"no": "s3fs"}, "s3://runs/run", 69, r"need the package s3fs.*dtlib|\[s3\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_place_that_cannot_be_used_is_refused_in_a_sentence(name, tmp_path, monkeypatch, capsys):
    changed, place, code, sentence = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for key, value in changed.items():
        if key == "no":
            monkeypatch.setitem(sys.modules, value, None)
        else:
            monkeypatch.setenv(key, value) if value else monkeypatch.delenv(key)
    assert cli.main([*TRAIN.split(), "--out", "run", "--checkpoints", place]) == code
    [said] = capsys.readouterr().err.splitlines()
    assert re.search(sentence, said)
    assert not (tmp_path / "run").exists()


def test_wrong_credentials_and_an_address_as_out_are_refused(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    train = [*TRAIN.split(), "--out"]
    assert cli.main([*train, "s3://runs/run"]) == 2
    assert "give a folder as out, and s3://runs/run as checkpoints" in capsys.readouterr().err
    requests.post(f"{server}/moto-api/reset-auth", data="0", timeout=10)  # from now on it looks
    try:
        assert cli.main([*train, "run", "--checkpoints", "s3://runs/run"]) == 69
    finally:
        requests.post(f"{server}/moto-api/reset-auth", data="inf", timeout=10)
    [said] = capsys.readouterr().err.splitlines()
    assert "refuses access to s3://runs/run (InvalidAccessKeyId: " in said
    assert "correct AWS_ACCESS_KEY_ID" in said
