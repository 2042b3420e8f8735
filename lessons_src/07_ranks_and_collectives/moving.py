"""A picture that moves: a frame for each step, and a row of buttons that show one at a time.

It has no script, so it moves in a notebook, on a page without a kernel and in a saved file. The
buttons are radio buttons: a click or an arrow key shows the next step.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping

from matplotlib.figure import Figure

from dtlib.learn import figures
from dtlib.learn.show import Shown

_LOOK = (
    "border:1px solid #8888;border-radius:6px;padding:.3em .8em;margin:.5em 0",
    "display:inline-block;margin-right:1em;cursor:pointer",
)


def moving(title: str, frames: Mapping[str, Figure]) -> Shown:
    """Show one frame of a picture at a time.

    Parameters
    ----------
    title
        What moves, above the buttons.
    frames
        A picture for each step, by the label of its button, in order. All have one size, or the
        page jumps.
    """
    drawn = [figures.markup(figure) for figure in frames.values()]
    name = "m" + hashlib.sha256("".join(drawn).encode()).hexdigest()[:8]
    buttons, rules = [], [f"#{name}>div{{display:none}}"]
    for k, label in enumerate(frames):
        first = " checked" if k == 0 else ""
        buttons.append(
            f'<label style="{_LOOK[1]}"><input type="radio" name="{name}" id="{name}-{k}"{first}> '
            f"{html.escape(label)}</label>"
        )
        rules.append(f"#{name}:has(#{name}-{k}:checked)>div:nth-of-type({k + 1}){{display:block}}")
    body = "".join(f"<div>{frame}</div>" for frame in drawn)
    words = [f"{label}: {getattr(figure, 'alt', '')}" for label, figure in frames.items()]
    return Shown(
        "\n".join([title, *words]),
        f'<style>{"".join(rules)}</style><fieldset id="{name}" class="dtlib-moving" '
        f'style="{_LOOK[0]}"><legend>{html.escape(title)}</legend>{"".join(buttons)}{body}</fieldset>',
    )
