"""What a run has saved: `dtlib export RUN FOLDER` and `dtlib checkpoints PLACE`."""

from __future__ import annotations

from dtlib.config.flags import Parser

PLACE = "the folder of a run, or s3://BUCKET/PREFIX"


def export(words: list[str]) -> int:
    """Run `dtlib export RUN FOLDER`."""
    parser = Parser(
        prog="dtlib export",
        description="Write the weights of a run's last complete checkpoint as safetensors.",
    )
    parser.add_argument("run", metavar="RUN", help=PLACE)
    parser.add_argument("folder", metavar="FOLDER", help="where the weights go")
    asked = parser.parse_args(words)
    from dtlib.training.checkpoint import export as weights

    print(weights.export(asked.run, asked.folder))
    return 0


def checkpoints(words: list[str]) -> int:
    """Run `dtlib checkpoints PLACE [--clean]`."""
    parser = Parser(
        prog="dtlib checkpoints",
        description="List the checkpoints of a run, say what is wrong with each, and remove what"
        " does not count.",
    )
    parser.add_argument("place", metavar="PLACE", help=PLACE)
    parser.add_argument(
        "--clean", action="store_true", help="remove what does not count; no run may be saving"
    )
    asked = parser.parse_args(words)
    from dtlib.training.checkpoint import listing

    print("\n".join(listing.list_checkpoints(asked.place, clean=asked.clean)))
    return 0
