"""What a student's machine tells a class view: the least, once, and without ever waiting."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtlib import learn
from dtlib.errors import BadInput, Unavailable
from dtlib.learn import asking, classroom
from tests.class_view import Server

pytestmark = pytest.mark.usefixtures("demo_lesson")
URL = "http://192.0.2.7:8733"
CARD, QUEUE = Path(".dtlib/class.json"), Path(".dtlib/class_queue.jsonl")


def double(x): ...


def right(x):
    return x + x


def same(x):
    return x


@pytest.fixture
def server(demo_lesson: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A class view of the demo lesson, to which every request goes."""
    server = Server(tmp_path / "class")
    monkeypatch.setattr(classroom, "ask", server.ask)
    monkeypatch.setattr(classroom, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(classroom, "LONGEST_WAIT", 0.05)
    yield server
    CARD.unlink(missing_ok=True)
    until(lambda: not classroom.member()._running)  # before another test has another server
    server.store.close()


def until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def sent() -> None:
    """Wait until nothing waits to be sent."""
    until(lambda: not classroom.member().waiting())


def test_who_has_not_joined_sends_nothing(server: Server) -> None:
    learn.check("double", same)
    learn.check("double", right)
    learn.start("90")
    assert server.asked == []
    assert not CARD.exists() and not QUEUE.exists()


def test_five_things_are_sent_for_an_attempt_and_none_for_an_empty_stub(server: Server) -> None:
    learn.join(URL, server.store.code, "ann")
    learn.check("double", double)
    for answer in (same, same, right):
        learn.check("double", answer)
    sent()
    events = [event for *_, body in server.asked[1:] for event in body["events"]]
    assert len({event.pop("id") for event in events}) == 3
    about = {"exercise": "90/double", "verdict": "refused", "key": "same"}
    assert events == [
        about | {"attempt": 1}, about | {"attempt": 2},
        {"exercise": "90/double", "attempt": 3, "verdict": "passed", "key": ""},
    ]  # fmt: skip
    assert server.counts("90/double") == (1, 0, 0)


def test_a_request_names_neither_host_nor_user_nor_code(monkeypatch: Any) -> None:
    got: list[bytes] = []
    card = b'{"student": 1, "name": "ann", "token": "t"}'
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve() -> None:
            for reply in (card, b'{"new": 1}'):
                with listener.accept()[0] as connection:
                    text = b""
                    while b"}" not in text[-3:]:
                        text += connection.recv(65536)
                    got.append(text)
                    connection.sendall(head % (len(reply), reply))

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("http_proxy", "http://192.0.2.1:9")  # the room's server is not behind it
        learn.join(f"http://127.0.0.1:{listener.getsockname()[1]}", "CODE")
        learn.check("double", same)
        thread.join()
    text = b"".join(got).decode().lower()
    heads = {line.partition(":")[0] for line in text.split("\r\n") if ": " in line}
    assert {name for name in heads if name[0] not in '{"'} == {
        "host", "accept-encoding", "content-length", "content-type", "authorization",
    }  # fmt: skip
    assert socket.gethostname().lower() not in text and "return" not in text


def test_a_server_that_is_gone_stops_no_check_and_gets_everything_later(server: Server) -> None:
    learn.join(URL, server.store.code)
    server.up = False
    for _ in range(3):
        assert not learn.check("double", same)
    until(
        lambda: sum(path.endswith("events") for _, path, _ in server.asked) >= 3
    )  # it tries again
    assert [event["attempt"] for event in classroom.member().waiting()] == [1, 2, 3]
    server.up = True
    sent()
    assert server.counts("90/double") == (0, 0, 1)
    assert server.store.standings()[0].attempts == 3


def test_an_answer_that_is_lost_makes_no_event_count_twice(server: Server) -> None:
    learn.join(URL, server.store.code)
    server.loses_answers = True
    for _ in range(2):
        learn.check("double", same)
    until(lambda: len(server.asked) >= 4)
    server.loses_answers = False
    sent()
    assert server.store.standings()[0].attempts == 2


def test_what_another_kernel_left_is_sent_when_a_lesson_starts(server: Server, capsys: Any) -> None:
    learn.join(URL, server.store.code, "ann")
    event = {"exercise": "90/double", "attempt": 1, "verdict": "refused", "key": "same"}
    lines = [json.dumps(event | {"id": f"{k:032}"}) for k in range(250)]
    # The machine lost its power in the middle of a line.
    QUEUE.write_text("\n".join([*lines[:7], lines[7][:20], *lines[8:]]), encoding="utf-8")
    learn.start("90")
    assert f"You are 'ann' in the class view of {URL}" in capsys.readouterr().out
    sent()
    assert server.store.standings()[0].attempts == 249
    assert max(len(body["events"]) for *_, body in server.asked[1:]) == classroom.BATCH


def test_an_event_that_is_refused_keeps_no_other_back(server: Server) -> None:
    learn.join(URL, server.store.code)
    member = classroom.member()
    server.up = False
    member.tell("90/double", 1, "refused", "same")
    member.tell("90/of_another_version", 1, "passed", "")
    member.tell("90/double", 2, "passed", "")
    server.up = True
    sent()
    assert server.counts("90/double") == (1, 0, 0)


def test_a_server_that_has_forgotten_a_student_is_not_asked_for_ever(
    server: Server, capsys: Any
) -> None:
    learn.join(URL, server.store.code, "ann")
    server.store.leave(1)
    learn.check("double", same)
    until(lambda: "nobody in this class" in classroom.member().problem)
    until(lambda: not classroom.member()._running)
    asked = len(server.asked)
    learn.progress()
    assert "1 verdict waits" in (said := capsys.readouterr().out)
    assert "It takes none: This token is of nobody" in said
    assert len(server.asked) == asked
    learn.join(URL, server.store.code, "ann")  # the code makes a student of ann again
    sent()
    assert server.store.standings()[0].student == 2


def test_joining_again_is_the_same_student(server: Server) -> None:
    learn.join(URL, server.store.code, "ann")
    card = CARD.read_text()
    learn.join(f"{URL}/", "no code is needed")
    server.up = False
    learn.join("192.0.2.7:8733", server.store.code)  # Run All, while the server is away
    assert CARD.read_text() == card and server.store.students() == ["ann"]
    with pytest.raises(BadInput, match=r"you are 'ann' in this class: learn\.leave\(\) first"):
        learn.join(URL, server.store.code, "ben")
    assert CARD.stat().st_mode & 0o077 == 0


def test_another_class_is_told_nothing_that_was_meant_for_the_last(server: Server) -> None:
    learn.join(URL, server.store.code, "ann")
    event = {"exercise": "90/double", "attempt": 1, "verdict": "passed", "key": ""}
    QUEUE.write_text(json.dumps(event | {"id": "0" * 32}))
    server.store.leave(1)  # at the same address, a class of another folder
    server.store.code = "NEXT-WEEK"
    learn.join(URL, server.store.code, "ben")
    learn.check("double", same)
    sent()
    assert server.counts("90/double") == (0, 1, 0)


def test_a_class_at_another_address_is_the_same_class(server: Server) -> None:
    learn.join(URL, server.store.code, "ann")
    server.up = False
    learn.check("double", same)
    with pytest.raises(Unavailable):
        learn.join("192.0.2.8:8733", server.store.code, "ann")
    assert json.loads(CARD.read_text())["url"] == URL
    server.up = True
    learn.join("192.0.2.8:8733", server.store.code.lower(), "ann")
    sent()
    assert json.loads(CARD.read_text())["url"] == "http://192.0.2.8:8733"
    assert server.store.students() == ["ann"] and server.counts("90/double") == (0, 1, 0)


def test_the_token_of_one_class_is_not_shown_to_another(server: Server) -> None:
    learn.join(URL, server.store.code, "ann")
    server.asked.clear()
    server.store.code = "NEXT-WEEK"
    learn.join("192.0.2.8:8733", server.store.code, "ben")
    assert [path for _, path, _ in server.asked] == ["/api/join"]


def test_nobody_else_can_read_the_card_while_it_is_written(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    replace = Path.replace

    def noted(self: Path, target: Path) -> Path:
        if target.name == CARD.name:
            modes.append(self.stat().st_mode & 0o077)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    learn.join(URL, server.store.code)
    assert modes == [0]


def test_who_leaves_sends_nothing_more_and_is_forgotten(server: Server, capsys: Any) -> None:
    learn.join(URL, server.store.code, "ann")
    learn.leave()
    asked = len(server.asked)
    learn.check("double", same)
    assert (len(server.asked), server.store.students()) == (asked, [])
    assert not CARD.exists() and not QUEUE.exists()
    learn.leave()
    assert "You have joined no class." in capsys.readouterr().out
    learn.join(URL, server.store.code, "ben")
    server.up = False
    learn.leave()
    assert "so it still has your name" in capsys.readouterr().out


def test_the_server_s_sentence_is_what_a_student_reads(server: Server) -> None:
    with pytest.raises(BadInput, match="This is not the code of this class"):
        learn.join(URL, "AAAA-AAAA")
    with pytest.raises(BadInput, match="contains '<'"):
        learn.join(URL, server.store.code, "<i>")
    server.up = False
    with pytest.raises(Unavailable, match=rf"no class view answers at {URL} \(the server is down"):
        learn.join(URL, server.store.code)
    assert not CARD.exists()


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://x:99999", "http://x/lab", "[::1", "file:///etc"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="is not the address of a class view"):
        learn.join(url, "CODE")


def test_a_server_of_another_kind_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(classroom, "ask", lambda *_: asking.Answer(404, {"error": "\x1b[31mno."}))
    with pytest.raises(BadInput, match=r"^\[31mno\.$"):
        learn.join(URL, "CODE")
    monkeypatch.setattr(classroom, "ask", lambda *_: asking.Answer(200))
    with pytest.raises(BadInput, match="not that of a class view"):
        learn.join(URL, "CODE")


@pytest.mark.parametrize("answer", [
    asking.Answer(422, {"error": "no", "event": ["odd"]}),
    asking.Answer(200, {"other": "program"}),
    asking.Answer(500),
])  # fmt: skip
def test_an_odd_answer_ends_neither_the_sending_nor_the_queue(
    server: Server, monkeypatch: Any, answer: asking.Answer
) -> None:
    learn.join(URL, server.store.code)
    asked: list[int] = []
    monkeypatch.setattr(classroom, "ask", lambda *_: asked.append(1) or answer)
    learn.check("double", same)
    until(lambda: len(asked) >= 3)
    monkeypatch.setattr(classroom, "ask", server.ask)
    sent()
    assert server.counts("90/double") == (0, 1, 0)


def test_a_full_disk_stops_no_check_and_loses_no_event(server: Server, monkeypatch: Any) -> None:
    learn.join(URL, server.store.code)
    write, full = classroom.write_atomically, [True]

    def fails(*words: Any) -> None:
        if full:
            raise OSError(28, "No space left on device")
        write(*words)

    monkeypatch.setattr(classroom, "write_atomically", fails)
    learn.check("double", same)
    until(lambda: len(server.asked) >= 4)  # the server has it; this side cannot note that
    full.clear()
    sent()
    assert server.store.standings()[0].attempts == 1
