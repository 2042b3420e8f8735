"""What can be fetched: where each file comes from, what it must be, its licence and citation.

Hashes are recorded here, never computed from what arrives. If the publisher gives a hash, it is
that one; if not, it is one that several independent projects recorded for the same file, and a
comment says so. Every file has a hash, so a mirror need not be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HUB = "https://huggingface.co"


@dataclass(frozen=True)
class File:
    """One file: its name on disk, and what it must be."""

    name: str
    sha256: str  # in hexadecimal
    size: int  # in bytes; an estimate if not `exact`
    urls: tuple[str, ...] = ()  # where to get it, best first; none for a member of an archive
    exact: bool = True  # whether the publisher states `size`

    @property
    def most(self) -> int:
        """The most bytes that the file can have; a longer one is certainly another file."""
        return self.size if self.exact else self.size + max(self.size // 1000, 1 << 16)

    def fits(self, size: int) -> bool:
        """Return whether a file of `size` bytes can be this one."""
        return size == self.size if self.exact else 0 < size <= self.most


@dataclass(frozen=True)
class Source:
    """A data set or a checkpoint: a folder of files, which come one by one or in one archive."""

    name: str
    what: str
    folder: str
    files: tuple[File, ...]
    licence: str
    cite: str
    archive: File | None = None

    @property
    def downloads(self) -> tuple[File, ...]:
        """The files to download."""
        return (self.archive,) if self.archive else self.files

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(file.size for file in self.downloads)


# The publisher's page gives the md5 c32a1d4ab5d03f1284b67883e8d87530 but no sha256. The archive's
# sha256 is the one that torchvision for Ruby, GoMLX and others record beside that md5; those of
# the members are from torchvision for Ruby.
_CIFAR10_FILES = (
    ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
)
_CIFAR10 = Source(
    name="cifar10",
    what="60,000 colour pictures of 32×32 in ten classes (binary layout)",
    folder="cifar-10-batches-bin",
    archive=File(
        "cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        170_052_171,
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    ),
    files=tuple(File(name, sha256, 30_730_000) for name, sha256 in _CIFAR10_FILES),
    licence="none stated by the publisher, who asks for the citation",
    cite="Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images",
)

# The publisher's bucket (research.metamind.io) is gone; its sha256 is the one that Hugging Face's
# `datasets` recorded. The first address is an author's own copy, the second one at a fixed commit.
_WIKITEXT2_FILES = (
    ("wiki.train.raw", "6707892fa3788b5ab9ed78ab5ff37d9fe825f6011a2ad4fcd6a6d467f0e7da57",
     10_940_747),
    ("wiki.valid.raw", "4cd0f6876d07a413aa911261ff6d363c72d757d47f0fdd6015702014c89cb9c7",
     1_146_846),
    ("wiki.test.raw", "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08",
     1_290_590),
)  # fmt: skip
_WIKITEXT2 = Source(
    name="wikitext2",
    what="2 million words of Wikipedia articles, raw text (WikiText-2)",
    folder="wikitext-2-raw",
    archive=File(
        "wikitext-2-raw-v1.zip",
        "ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
        4_721_645,
        (
            "https://wikitext.smerity.com/wikitext-2-raw-v1.zip",
            f"{HUB}/datasets/ggml-org/ci/resolve/927b3642933080f1b0e811e2f916e14c292992f9"
            "/wikitext-2-raw-v1.zip",
        ),
    ),
    files=tuple(File(*row) for row in _WIKITEXT2_FILES),
    licence="CC BY-SA 3.0",
    cite="Merity et al. (2016), Pointer Sentinel Mixture Models, arXiv:1609.07843",
)

_SHAKESPEARE = Source(
    name="shakespeare",
    what="1.1 million characters of plays (Tiny Shakespeare)",
    folder="shakespeare",
    files=(
        File(
            "tinyshakespeare.txt",
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
            1_115_394,
            (
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data"
                "/tinyshakespeare/input.txt",
            ),
        ),
    ),
    licence="public domain",
    cite="Karpathy (2015), The Unreasonable Effectiveness of Recurrent Neural Networks",
)

GPT2_LICENCE = "modified MIT (OpenAI)"
GPT2_CITE = "Radford et al. (2019), Language Models are Unsupervised Multitask Learners"
# OpenAI gives the same two hashes in tiktoken, for the names encoder.json and vocab.bpe.
_TOKENIZER = (
    ("vocab.json", "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783", 1_042_301),
    ("merges.txt", "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5", 456_318),
)
_REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"  # of openai-community/gpt2


def _from_hub(model: str, revision: str, name: str) -> tuple[str, ...]:
    return (f"{HUB}/openai-community/{model}/resolve/{revision}/{name}",)


def _tokenizer_files() -> tuple[File, ...]:
    return tuple(
        File(name, sha256, size, _from_hub("gpt2", _REVISION, name))
        for name, sha256, size in _TOKENIZER
    )


def _checkpoint(
    model: str, millions: int, revision: str, config: tuple[str, int], weights: tuple[str, int],
    exact: bool = True,
) -> Source:  # fmt: skip
    own = tuple(
        File(name, sha256, size, _from_hub(model, revision, name), exact)
        for name, (sha256, size) in (("config.json", config), ("model.safetensors", weights))
    )
    return Source(
        name=model,
        what=f"pretrained weights, {millions} million parameters, with the tokenizer",
        folder=model,
        files=(*_tokenizer_files(), *own),
        licence=GPT2_LICENCE,
        cite=GPT2_CITE,
    )


# The hub shows the sha256 of the weights, since it stores them by it; those of the small config
# files are from other projects, at the same revision. No published size in bytes was found for the
# two largest: their tensors alone are 3,247,115,264 and 6,431,771,392 bytes, plus a header.
_CHECKPOINTS = (
    _checkpoint(
        "gpt2", 124, _REVISION,
        ("0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4", 665),
        ("248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707", 548_105_171),
    ),
    _checkpoint(
        "gpt2-medium", 355, "6dcaa7a952f72f9298047fd5137cd6e4f05f41da",
        ("ef1a44d889ad1a0acc7731c78134f1b87d2d222f110e97dd10fd4117331caf22", 718),
        ("fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd", 1_519_984_962),
    ),
    _checkpoint(
        "gpt2-large", 774, "32b71b12589c2f8d625668d2335a01cac3249519",
        ("7fccdcfd6622055342a734c663ee0b61ff4fd697f42467595df0bf4448c8c170", 700),
        ("5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce", 3_247_200_000),
        exact=False,
    ),
    _checkpoint(
        "gpt2-xl", 1558, "15ea56dee5df4983c59b2538573817e1667135e2",
        ("be48115d52314bc27327e160bf10197760db02ea689d10adb24db4102edf7a8a", 700),
        ("0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a", 6_431_900_000),
        exact=False,
    ),
)  # fmt: skip

_TOKENIZER_ALONE = Source(
    name="gpt2-tokenizer",
    what="GPT-2's byte pairs: vocab.json and merges.txt, 50,257 tokens",
    folder="gpt2-bpe",
    files=_tokenizer_files(),
    licence=GPT2_LICENCE,
    cite=GPT2_CITE,
)

_ALL = (_CIFAR10, _WIKITEXT2, _SHAKESPEARE, _TOKENIZER_ALONE, *_CHECKPOINTS)
SOURCES: Mapping[str, Source] = MappingProxyType({source.name: source for source in _ALL})
