"""`dtlib doctor`, `fetch` and `ops`: examine this machine, get data, compile operators."""

from __future__ import annotations

from dtlib.config.flags import Parser, add_json
from dtlib.config.terminal import to_json
from dtlib.errors import BadInput, refuse_unknown


def doctor(words: list[str]) -> int:
    """Say what this machine can run."""
    parser = Parser(prog="dtlib doctor", description="What this machine can run.")
    parser.add_argument("--nodes", action="store_true", help="examine all nodes of this job")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    settings = parser.parse_args(words)
    from dtlib.cluster.doctor import look

    return look(nodes=settings.nodes, as_json=settings.json)


def fetch(words: list[str]) -> int:
    """Get data sets and checkpoints, or list them."""
    parser = Parser(
        prog="dtlib fetch",
        description="Get data sets and checkpoints; each file is verified by its hash.",
        epilog="`dtlib fetch` alone lists what is available.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to get")
    parser.add_argument(
        "--from",
        dest="carried",
        action="append",
        default=[],
        metavar="FILE",
        help="take it from a file, or a folder of files, that you copied here; no network is used",
    )
    parser.add_argument("--urls", action="store_true", help="only print the download addresses")
    add_json(parser)
    settings = parser.parse_args(words)
    from dtlib.data.fetch import SOURCES, addresses, get, listing, places, resolve

    if settings.urls:
        names = settings.names or SOURCES
        found = {name: resolve(name).downloads for name in names}
        print(to_json(found) if settings.json else "\n".join(map(addresses, names)))
    elif settings.json:
        if settings.names or settings.carried:
            raise BadInput("--json goes with a list: give no NAME and no --from, or add --urls.")
        print(
            to_json(
                [{**vars(source), "bytes": source.size, "here": here} for source, here in places()]
            )
        )
    elif settings.names:
        get(settings.names, settings.carried)
    elif settings.carried:
        raise BadInput("say what the file is: `dtlib fetch NAME --from FILE`.")
    else:
        print(listing())
    return 0


def ops(words: list[str]) -> int:
    """Compile DeepSpeed's operators, or list which are compiled."""
    from dtlib.strategies import operators as ops

    parser = Parser(
        prog="dtlib ops",
        description="DeepSpeed's compiled operators, for strategies offload and infinity.",
        epilog="A run never compiles: it loads what is built, or names what is missing.",
    )
    parser.add_argument(
        "what", choices=("build", "list"), help="build what is missing, or list all"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ops.OPERATORS)}")
    add_json(parser)
    settings = parser.parse_args(words)
    names = settings.names or list(ops.OPERATORS)
    for name in names:
        refuse_unknown("operator", name, ops.OPERATORS)
    if settings.what == "build":
        if settings.json:
            raise BadInput("--json goes with `dtlib ops list`; leave it out.")
        ops.build(names)
    elif settings.json:
        print(to_json({name: ops.built(name) for name in names}))
    else:
        for name in names:
            print(f"{name:<10}  {ops.built(name) or 'not built: dtlib ops build'}")
    return 0
