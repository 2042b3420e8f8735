"""`dtlib bench links | disk`: what this cluster's links and storage reach, for the data sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil

from dtlib.cli.describing import own_rank
from dtlib.config.flags import Parser, add_json
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput
from dtlib.measure import disk, links

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9, "": 1}


def main(words: list[str]) -> int:
    """Run the command, and return its exit code."""
    parser = Parser(prog="dtlib bench", description="Measure what a cluster's parts reach.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_links = kinds.add_parser("links", help="collectives of growing size between ranks")
    of_links.add_argument("--ranks", type=int, metavar="N", help="how many (default: 2)")
    of_links.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    of_links.add_argument("--collective", default="all_reduce", choices=links.COLLECTIVES)
    of_links.add_argument("--largest", default="64MiB", metavar="SIZE", help="(default: 64MiB)")
    of_links.add_argument(
        "--sheet", type=float, metavar="GB/S", help="what the data sheet says, in one direction"
    )
    of_disk = kinds.add_parser("disk", help="one large file, and the same bytes in small ones")
    of_disk.add_argument("folder", type=Path, help="on the storage to measure")
    of_disk.add_argument("--size", default="256MiB", metavar="SIZE", help="(default: 256MiB)")
    of_disk.add_argument("--files", type=int, default=4096, metavar="N", help="(default: 4096)")
    for each in (of_links, of_disk):
        add_json(each)
    args = parser.parse_args(words)
    return _links(args) if args.kind == "links" else _disk(args)


def size_in_bytes(text: str) -> int:
    """Return the bytes of `64MiB`, `1.5GB` or a plain number.

    Raises `BadInput` for anything else.
    """
    number = text.rstrip("BGKMi")
    unit = text[len(number) :]
    try:
        found = int(float(number) * UNITS[unit])
    except (KeyError, ValueError):
        raise BadInput(f"{text!r} is no size; use for instance 64MiB or 1.5GB.") from None
    if found < 1:
        raise BadInput(f"{text!r} is no size; use at least one byte.")
    return found


def _links(args: Any) -> int:
    from dtlib.ranks.launcher import launch

    _refuse_links(args)
    largest = size_in_bytes(args.largest)
    sizes = [size for size in links.SIZES if size < largest] + [largest]
    found = launch(
        links.measure, args.collective, sizes, ranks=args.ranks, device=args.device, show=False
    )
    if own_rank() != 0:
        return 0
    rows, ranks = found[0], len(found)
    alpha, bandwidth = links.latency_and_bandwidth(rows, args.collective, ranks)
    if args.json:
        told = {"ranks": ranks, "latency_s": alpha, "bandwidth": bandwidth, "sizes": rows}
        print(to_json(told))
        return 0
    print(f"{args.collective} on {ranks} ranks; the median of the slowest rank's times")
    print(f"{'bytes':>12} {'repeats':>8} {'ms':>9} {'from to':>17} {'algbw':>8} {'busbw':>8}  GB/s")
    for row in rows:
        low, high = (1e3 * each for each in row["spread"])
        print(
            f"{row['size']:>12,} {row['repeats']:>8} {1e3 * row['seconds']:>9.3f}"
            f" {low:>8.3f} {high:>8.3f} {row['algbw'] / 1e9:>8.3f} {row['busbw'] / 1e9:>8.3f}"
        )
    reached = bandwidth / 1e9
    print(f"A message takes about {1e6 * alpha:.0f} µs, and bytes flow at {reached:.2f} GB/s.")
    if args.sheet:
        print(f"That is {reached / args.sheet:.0%} of the data sheet's {args.sheet:g} GB/s.")
    return 0


def _refuse_links(args: Any) -> None:
    most = psutil.virtual_memory().total
    if size_in_bytes(args.largest) > most:
        raise BadInput(
            f"--largest {args.largest} is more than this machine's memory of"
            f" {most / 2**30:.0f} GiB; use less."
        )
    if args.sheet is not None and args.sheet <= 0:
        raise BadInput(f"--sheet {args.sheet:g} must be above 0.")
    if args.ranks == 1:
        raise BadInput("one rank has no link to measure; use --ranks 2 or more.")


def _disk(args: Any) -> int:
    rows = disk.measure(args.folder, size_in_bytes(args.size), args.files)
    if args.json:
        print(to_json(rows))
        return 0
    for row in rows:
        print(
            f"{row['what']:<20} {row['bytes'] / 1e6:>8.0f} MB {row['seconds']:>8.2f} s"
            f" {row['bytes_per_s'] / 1e6:>9.1f} MB/s {row['files_per_s']:>10,.0f} files/s"
        )
    by_name = {row["what"].partition(" ")[0] + str(row["files"] > 1): row for row in rows}
    for verb in ("write", "read"):
        if verb + "True" in by_name:
            times = by_name[verb + "True"]["seconds"] / by_name[verb + "False"]["seconds"]
            print(
                f"To {verb} the same bytes in {args.files:,} files takes {times:.1f} times as long."
            )
    if not disk.FORGETS:
        print("This system cannot be asked to forget files, so reading was not measured.")
    return 0
