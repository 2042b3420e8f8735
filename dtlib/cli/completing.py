"""Shell completion: argcomplete asks the parsers which words may follow."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dtlib.cli.commands import COMMANDS
from dtlib.config.flags import Parser, one_of
from dtlib.errors import Unavailable

ASKED = "_ARGCOMPLETE"  # set by the shell's function, with the place of `dtlib` among the words
SHELLS = ("bash", "zsh", "fish")


def completion(words: list[str]) -> int:
    """Print the shell function that completes dtlib's command lines."""
    parser = Parser(
        prog="dtlib completion",
        description="Print the code that lets a shell complete commands, settings and choices.",
        epilog='bash and zsh: eval "$(dtlib completion bash)" in ~/.bashrc, or zsh in ~/.zshrc;'
        " fish: dtlib completion fish > ~/.config/fish/completions/dtlib.fish",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that you use")
    shell = parser.parse_args(words).shell
    try:
        import argcomplete
    except ImportError:
        raise Unavailable("completion needs argcomplete: pip install argcomplete.") from None
    print(argcomplete.shellcode(["dtlib"], shell=shell))
    return 0


def complete(env: Mapping[str, str] = os.environ) -> None:
    """Answer the shell and end this process; return only where nothing can be offered."""
    import argcomplete
    from argcomplete.lexers import split_line

    line, point, first = env["COMP_LINE"], int(env["COMP_POINT"]), int(env[ASKED])
    words = split_line(line, point)[3][first:]

    def answer(parser: Parser) -> None:
        os.environ[ASKED] = str(first + len(parser.prog.split()) - 1)
        argcomplete.autocomplete(parser, always_complete_options=False)

    if words[:1] == ["help"]:
        answer(one_of("dtlib help", COMMANDS))
    elif not words:
        parser = one_of("dtlib", COMMANDS)
        parser.add_argument("--version", action="store_true")
        answer(parser)
    elif words[0] in COMMANDS:
        Parser.asked = staticmethod(answer)
        COMMANDS[words[0]].run(words[1:])
