"""A picture that moves: one frame is shown at a time, chosen by mouse or keyboard."""

from dtlib.learn.drawing import canvas

from .moving import moving


def frame(value: int):
    figure, axes = canvas(f"Step {value}", f"The picture shows the number {value}.")
    axes.text(0, 0, str(value))
    return figure


def test_every_frame_has_a_button_and_one_is_shown() -> None:
    shown = moving("It <moves>", {"start": frame(0), "s=0": frame(1), "s=1": frame(2)})
    page = shown.markup
    assert page.count('type="radio"') == page.count("<svg") == page.count("<label") == 3
    assert page.count(" checked>") == 1
    for k in range(3):
        assert f"-{k}:checked)>div:nth-of-type({k + 1}){{display:block}}" in page
    assert "<legend>It &lt;moves&gt;</legend>" in page
    assert "<script" not in page


def test_two_of_them_on_a_page_do_not_share_their_buttons() -> None:
    pages = [moving("one", {"a": frame(k)}).markup for k in (1, 2)]
    names = {page.split('name="')[1].split('"')[0] for page in pages}
    assert len(names) == 2


def test_its_text_says_every_frame() -> None:
    said = moving("It moves", {"start": frame(0), "s=0": frame(1)}).text
    assert said == (
        "It moves\nstart: Step 0. The picture shows the number 0.\n"
        "s=0: Step 1. The picture shows the number 1."
    )
