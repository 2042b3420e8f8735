"""Checkpoints in a bucket of S3, or of any server that speaks its protocol.

A general-purpose bucket has no rename, and a directory bucket (S3 Express One Zone) renames only
one object at a time. So files go to their final names at once, and a checkpoint is a folder that
has a `complete.json`: a single small object, written last, which S3 shows as a whole or not at all.
Until then the folder does not count. A killed save leaves objects without that marker, and parts of
an unfinished multipart upload, which no listing shows and which cost money all the same; the next
save removes both, and so does `dtlib checkpoints PLACE --clean`.

Every error that the user can mend is one sentence; see `_explained`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dtlib.errors import BadInput, DtlibError, Unavailable, counted, in_words
from dtlib.training.checkpoint.folders import MARKER, Storage, free_name, save_hashed

PART = 32 << 20  # bytes of a part: S3 takes 10,000 parts, so a file may have 335 GB
BLOCK = 8 << 20  # bytes of a request that reads
REACH = 5  # seconds to connect
PATIENCE = 5  # attempts in a run, so that a short failure of the network ends no run


def is_address(where: str) -> bool:
    """Tell whether checkpoints lie at an address and not in a folder."""
    return "://" in where


class Bucket(Storage):
    """The checkpoints under an address `s3://BUCKET/PREFIX`.

    Credentials, region and AWS_ENDPOINT_URL are those that all AWS tools read.

    Raises
    ------
    BadInput
        The address is of another kind, or has no bucket or no prefix.
    Unavailable
        The package s3fs is missing.
    """

    setting = "--checkpoints"

    def __init__(self, where: str, attempts: int = PATIENCE) -> None:
        match = re.fullmatch(r"s3://([^/]+)/+(.*[^/])/*", where)
        if not match:
            raise BadInput(
                f"checkpoints is {where!r}; it must be a folder, or s3://BUCKET/PREFIX with a"
                " prefix of the run's own."
            )
        self._bucket, self._prefix = match.groups()
        self.where = f"s3://{self._bucket}/{self._prefix}"
        self._fs = _connect(self.where, attempts)

    def check(self) -> None:
        """Write and remove a small object."""
        test = f"{self.where}/.dtlib-write-test"
        with self._explained():
            self._fs.pipe_file(test, b"")
            self._fs.rm_file(test)

    def begin(self, step: int) -> str:
        """Choose a name that nothing here has, then remove what interrupted saves have left.

        A killed process's last request may arrive late, so its name is not used again.
        """
        name = free_name(step, self._sizes_by_name())
        self.clean()
        return name

    def write(self, draft: str, file: str, content: Any) -> dict[str, Any]:
        """Upload a file, in parts if it is larger than one; an error aborts the upload."""
        with self._explained():
            opened = self._fs.open(self.path(draft, file), "wb", block_size=PART)
            try:
                told = save_hashed(content, opened)
                opened.close()
            except BaseException:
                opened.closed = True  # else the file would complete the upload of a part
                with contextlib.suppress(Exception):  # the first error says more
                    opened.discard()
                raise
            return told

    def publish(self, draft: str, marker: str) -> str:
        """Write the marker, which makes the folder count."""
        with self._explained():
            self._fs.pipe_file(self.path(draft, MARKER), marker.encode())
        return draft

    def leftovers(self) -> list[str]:
        """Name the folders without a marker, and the unfinished multipart uploads."""
        return [
            *(f"{name} ({_told(sizes)})" for name, sizes in self._without_marker().items()),
            *(f"unfinished upload of {key}" for key, _ in self._uploads()),
        ]

    def clean(self) -> None:
        """Abort unfinished uploads, and remove the folders without a marker."""
        for key, upload in self._uploads():
            with self._explained():
                self._fs.call_s3(
                    "abort_multipart_upload", Bucket=self._bucket, Key=key, UploadId=upload
                )
        for name, sizes in self._without_marker().items():
            self._remove(self.path(name, file) for file in sizes)

    def names(self) -> list[str]:
        """Return the names of the folders that have a marker; no other counts."""
        return [name for name, sizes in self._sizes_by_name().items() if MARKER in sizes]

    def sizes(self, name: str) -> Mapping[str, int]:
        """Return the number of bytes of each file of a folder."""
        return self._sizes_by_name().get(name, {})

    @contextlib.contextmanager
    def reader(self, name: str, file: str) -> Iterator[Any]:
        """Open a file for reading."""
        with (
            self._explained(),
            self._fs.open(self.path(name, file), "rb", block_size=BLOCK) as opened,
        ):
            yield opened

    def remove(self, name: str) -> None:
        """Remove the marker first, then the rest."""
        sizes = self.sizes(name)
        self._remove([self.path(name, MARKER)])
        self._remove(self.path(name, file) for file in sizes if file != MARKER)

    def path(self, name: str, file: str = "") -> str:
        """Return the address of a folder, or of one of its files."""
        return f"{self.where}/{name}" + f"/{file}" * bool(file)

    def _sizes_by_name(self) -> dict[str, dict[str, int]]:
        """Return the bytes of each file of each folder here, complete or not."""
        with self._explained():
            found = self._fs.find(self.where, detail=True)
        sizes: dict[str, dict[str, int]] = {}
        for key, info in found.items():
            name, slash, file = key.removeprefix(f"{self._bucket}/{self._prefix}/").partition("/")
            if slash and name.startswith("step-"):
                sizes.setdefault(name, {})[file] = info["size"]
        return sizes

    def _without_marker(self) -> dict[str, dict[str, int]]:
        return {name: s for name, s in self._sizes_by_name().items() if MARKER not in s}

    def _uploads(self) -> list[tuple[str, str]]:
        """Return key and id of every multipart upload here that was begun and not completed."""
        found: list[tuple[str, str]] = []
        asked = {"Bucket": self._bucket, "Prefix": f"{self._prefix}/step-"}
        while True:
            with self._explained():
                answer = self._fs.call_s3("list_multipart_uploads", **asked)
            found += [(one["Key"], one["UploadId"]) for one in answer.get("Uploads", [])]
            if not answer.get("IsTruncated"):
                return found
            asked["KeyMarker"] = answer["NextKeyMarker"]
            asked["UploadIdMarker"] = answer["NextUploadIdMarker"]

    def _remove(self, paths: Any) -> None:
        if paths := [*paths]:
            with self._explained():
                self._fs.rm(paths)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error that the user can mend into a sentence; others pass as they are."""
        try:
            yield
        except DtlibError:
            raise
        except Exception as error:
            said = _sentence(error, self.where, self._bucket)
            if said is None:
                raise
            raise said from error


def _connect(where: str, attempts: int) -> Any:
    try:
        import s3fs
    except ImportError:
        raise Unavailable(
            f"checkpoints in {where} need the package s3fs, which is not installed: in the"
            " project's folder, run pip install -e '.[s3]' -c constraints.txt."
        ) from None
    # Listings are never kept: other ranks write here too.
    return s3fs.S3FileSystem(
        config_kwargs={"connect_timeout": REACH, "retries": {"total_max_attempts": attempts}},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def _sentence(error: Exception, where: str, bucket: str) -> DtlibError | None:
    """Return the sentence for an error of S3 that the user can mend; None for any other."""
    from botocore import exceptions as aws

    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    server = server or "Amazon S3"
    no_credentials = (
        aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError,
        aws.ProfileNotFound, aws.SSOError, aws.TokenRetrievalError,
    )  # fmt: skip
    keys = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    if isinstance(error, no_credentials):
        return Unavailable(
            f"{where} needs credentials, and there are none that work ({in_words(error)}): set"
            f" {keys}."
        )
    if isinstance(error, aws.ConnectionError | aws.HTTPClientError):
        return Unavailable(
            f"{server} did not answer ({in_words(error)}): check the network and"
            " AWS_ENDPOINT_URL, or leave out --checkpoints to use a folder."
        )
    if isinstance(error, aws.InvalidRegionError | aws.InvalidEndpointConfigurationError) or (
        isinstance(error, ValueError) and "endpoint" in str(error).lower()
    ):
        return BadInput(f"{in_words(error)}: correct AWS_ENDPOINT_URL and AWS_REGION.")
    answer = getattr(error.__cause__, "response", None)
    code = answer["Error"].get("Code", "") if answer else ""
    if code in ("NoSuchBucket", "InvalidBucketName", "PermanentRedirect", "301"):
        return BadInput(
            f"there is no bucket {bucket!r} at {server} ({in_words(error)}): create it, with"
            f" `aws s3 mb s3://{bucket}`, or correct --checkpoints and AWS_REGION."
        )
    if isinstance(error, PermissionError):
        return Unavailable(
            f"{server} refuses access to {where} ({code}: {in_words(error)}): correct {keys},"
            " or ask for the right to list, read, write and delete there."
        )
    return None


def _told(sizes: Mapping[str, int]) -> str:
    return f"{counted(len(sizes), 'file')}, {counted(sum(sizes.values()), 'byte')}, no {MARKER}"
