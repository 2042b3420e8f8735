"""A script that a student's function returns: accepted if it is text that bash can read."""

import re

from dtlib.learn.verdicts import Wrong

from .. import practice_cluster

# What bash says of a line that it understood differently from its author.
_MISREAD = re.compile(
    r"line \d+: (.*(?:command not found|operator expected|expression expected|missing `\]'"
    r"|too many arguments|not a valid identifier|no such job))"
)


def misread(output):
    """The first such complaint in what a script printed; empty if there is none."""
    found = _MISREAD.search(output)
    return found[1] if found else ""


def text_of(script):
    """What a function returned, if bash can read it."""
    case = "what the function returns"
    if script is None:
        raise Wrong("none", case)
    if not isinstance(script, str):
        raise Wrong("not_text", case, got=type(script).__name__)
    if says := practice_cluster.syntax_error(script):
        raise Wrong("syntax", case, says=says.rstrip(".?"))
    return script
