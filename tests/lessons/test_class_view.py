"""The class view's store and application, without a socket."""

import json
import socket
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtlib import cli
from dtlib.errors import BadInput
from dtlib.lessons.class_view import app, idle, store
from dtlib.lessons.class_view.overview import catalogue, without_numbers
from dtlib.lessons.class_view.refusals import Limiter
from dtlib.lessons.class_view.serving import greeting
from dtlib.lessons.class_view.store import Store
from tests.class_view import Server

PASS = {"exercise": "07/ring_time", "attempt": 1, "verdict": "passed", "key": ""}
WRONG = {"exercise": "07/global_mean", "attempt": 1, "verdict": "refused", "key": "nan"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "class", line='learn.join("http://board", "CODE")')
    yield server
    server.store.close()


class Student:
    """Somebody who has joined."""

    def __init__(self, server: Server, name: str | None = None) -> None:
        body = {"code": server.store.code, "name": name}
        card = server.client.post("/api/join", json=body).json()
        self.server, self.number, self.name = server, card["student"], card["name"]
        self.headers = {"authorization": f"Bearer {card['token']}"}
        self.path = f"/api/students/{self.number}/events"

    def send(self, *events: Any, **more: Any) -> Any:
        whole = [{"id": uuid.uuid4().hex} | event for event in events]
        options = {"headers": self.headers, "json": {"events": whole}} | more
        return self.server.client.post(self.path, **options)


def test_the_page_shows_who_passed_tries_and_is_stuck_on_which_mistake(server: Server) -> None:
    ann, ben, cem, dee = (Student(server, name) for name in ("ann", "ben", "cem", None))
    for student, times in ((ann, 3), (ben, 4), (cem, 2), (dee, 3)):
        assert student.send(*[WRONG] * times).json() == {"new": times}
    ben.send(WRONG | {"key": "mean_of_means"})  # the latest refusal counts
    dee.send(PASS | {"exercise": "07/global_mean"}, WRONG)  # once passed, always passed
    shown = server.shown()
    assert shown["students"] == 4 and shown["line"].startswith("learn.join(")
    assert [lesson["number"] for lesson in shown["lessons"]] == ["07"]
    first, *others = shown["lessons"][0]["exercises"]
    assert (first["passed"], first["trying"], first["stuck"]) == (1, 1, 2)
    told = {one["key"]: (one["who"], one["sentence"]) for one in first["mistakes"]}
    assert told["nan"][0] == ["ann"] and told["mean_of_means"][0] == ["ben"]
    assert told["mean_of_means"][1].startswith("You got …, the average of …")
    assert len(others) == 5 and not any(one["passed"] + one["stuck"] for one in others)


def test_an_event_that_is_sent_again_counts_once_and_for_its_sender_alone(server: Server) -> None:
    ann, ben = Student(server), Student(server)
    event = PASS | {"id": "0" * 32}
    assert [ann.send(event).json()["new"] for _ in range(2)] == [1, 0]
    assert ben.send(event).json() == {"new": 1}  # ids of others are none of his
    assert server.counts("07/ring_time") == (2, 0, 0)


def test_after_a_restart_code_key_tokens_and_verdicts_are_there(tmp_path: Path) -> None:
    before = Server(tmp_path / "class")
    student = Student(before, "ann")
    student.send(*[WRONG] * 3)
    secrets = before.store.code, before.store.key
    before.store.close()
    after = Server(tmp_path / "class")
    assert (after.store.code, after.store.key) == secrets
    student.server = after
    assert student.send(WRONG).json() == {"new": 1}
    assert after.shown()["lessons"][0]["exercises"][0]["mistakes"][0]["who"] == ["ann"]
    after.store.close()


def test_who_leaves_is_forgotten_and_no_longer_stuck(server: Server) -> None:
    ann, ben = Student(server, "ann"), Student(server, "ben")
    for one in (ann, ben):
        one.send(*[WRONG] * 3, PASS)
    assert server.client.delete(f"/api/students/{ann.number}", headers=ann.headers).json() == {}
    assert server.counts("07/global_mean") == (0, 0, 1)
    assert server.counts("07/ring_time") == (2, 0, 0)
    assert ann.send(PASS).status_code == 401
    assert server.store.students() == ["ben"]
    assert Student(server, "ann").number not in (ann.number, ben.number)


# --- what is refused ----------------------------------------------------------------------------


def refused(answer: Any, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    said = answer.json()["error"]
    assert words in said and said[-1] in ".?" and "\n" not in said
    assert said.count(". ") <= 1  # "Did you mean …?" may follow


@pytest.mark.parametrize(("body", "status", "words"), [
    ({"code": "AAAA-AAAA"}, 403, "not the code of this class"),
    ({"code": "é\ud800"}, 403, "not the code"),
    ({"code": 7}, 422, "'code' must be a text"),
    ({"name": "ann"}, 422, "'code' must be a text"),
    ({"code": "", "host": "mine"}, 422, "a field 'host': only code, name"),
])  # fmt: skip
def test_a_wrong_code_is_refused(server: Server, body: Any, status: int, words: str) -> None:
    text = json.dumps(body)
    head = {"content-type": "application/json"}
    refused(server.client.post("/api/join", content=text, headers=head), status, words)
    assert server.store.students() == []


@pytest.mark.parametrize(("name", "words"), [
    ("<b>ann</b>", "contains '<'"),
    ("ann & co", "contains '&'"),
    ("=1+1", "contains '='"),
    ("-ann", "begins with '-'"),
    ("", "has 0 characters"),
    ("a" * 25, "has 25 characters"),
    ("ann\u202e", "contains '\\u202e'"),  # it would turn the line round
    ("\ud800", "contains '\\ud800'"),
])  # fmt: skip
def test_markup_in_a_pseudonym_is_refused(server: Server, name: str, words: str) -> None:
    text = json.dumps({"code": server.store.code, "name": name})
    head = {"content-type": "application/json"}
    refused(server.client.post("/api/join", content=text, headers=head), 422, words)


def test_names_of_other_languages_are_taken_once(server: Server) -> None:
    assert [Student(server, name).name for name in ("  Zoë  2 ", "हिरन", "小熊")] == [
        "Zoë 2", "हिरन", "小熊",
    ]  # fmt: skip
    again = server.client.post("/api/join", json={"code": server.store.code, "name": "ZOË 2"})
    refused(again, 409, "already called 'ZOË 2'")


def test_too_many_students_are_refused(tmp_path: Path) -> None:
    server = Server(tmp_path / "class", most=2)
    Student(server), Student(server)
    body = {"code": server.store.code.lower().replace("-", " ")}  # as people type it
    refused(
        server.client.post("/api/join", json=body), 409, "2 students have joined, and at most 2"
    )


def test_guessing_the_code_is_refused_even_when_the_guess_is_right(server: Server) -> None:
    for _ in range(20):
        assert server.client.post("/api/join", json={"code": "AAAA-AAAA"}).status_code == 403
    answer = server.client.post("/api/join", json={"code": server.store.code})
    refused(answer, 429, "too many wrong codes from this address: try again in 3 s.")
    assert answer.headers["retry-after"] == "3"


def test_a_flood_is_refused(server: Server) -> None:
    student, other = Student(server), Student(server)
    for _ in range(3):
        assert student.send(*[PASS] * 100).status_code == 200
    refused(student.send(*[PASS] * 100), 429, "You send verdicts too often: try again in 50 s.")
    assert other.send(PASS).status_code == 200
    for _ in range(3):
        refused(other.send(*[{}] * 101), 422, "at most 100 events")  # counts, too
    server.view.by_student.most = 1
    assert other.send(*[{}] * 101).status_code == 422
    refused(other.send(*[{}] * 101), 429, "You send verdicts too often")


def test_a_flood_from_an_address_keeps_nobody_back_who_has_a_token(server: Server) -> None:
    student, key = Student(server), {"authorization": f"Bearer {server.store.key}"}
    server.view.by_address = Limiter(3, 1e-3)
    code = {"code": server.store.code}
    stranger = {"authorization": "Bearer x"}
    assert server.client.get("/api/class", headers=stranger).status_code == 403
    assert student.send(PASS, headers=stranger).status_code == 401
    assert server.client.post("/api/join", json=code).status_code == 200
    refused(student.send(PASS, headers={}), 429, "This address asks too often")
    refused(server.client.get("/api/class", headers=student.headers), 429, "asks too often")
    refused(server.client.post("/api/join", json=code), 429, "asks too often")
    assert student.send(PASS).json() == {"new": 1}
    assert server.client.get("/api/class", headers=key).status_code == 200


def test_one_address_cannot_take_all_seats_at_once(server: Server) -> None:
    server.view.joins.most = 2
    Student(server), Student(server)
    answer = server.client.post("/api/join", json={"code": server.store.code})
    refused(answer, 429, "Too many students join from this address at once: try again in 2 s.")
    assert len(server.store.students()) == 2


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 11, "-1", "²", "x"])
def test_what_is_no_number_of_a_student_is_refused(server: Server, number: str) -> None:
    student = Student(server)
    student.path = f"/api/students/{number}/events"
    refused(student.send(PASS), 403, "token is that of another student")


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_commit_that_fails_leaves_the_next_change_alone(
    server: Server, rolled_back: bool
) -> None:
    class Full:
        """A connection to a file on a full disk; SQLite may have rolled back by itself."""

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def execute(self, query: str, *values: Any) -> Any:
            if query != "COMMIT":
                return real.execute(query, *values)
            if rolled_back:
                real.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")

    real, server.store._db = server.store._db, Full()
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        server.store.join("ann", 60)
    server.store._db = real
    server.store.join("ben", 60)
    assert server.store.students() == ["ben"]


def test_a_connection_on_which_nobody_asks_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "SECONDS", 0.2)
    web = idle.server(server.view)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=web.run, args=([listener],))
        thread.start()
        try:
            for begun in (b"", b"GET / HT", b"GET /page.js HTTP/1.1\r\nhost: x\r\n\r\nGET / HT"):
                with socket.create_connection(listener.getsockname(), timeout=4) as silent:
                    silent.sendall(begun)
                    text = b"".join(iter(lambda one=silent: one.recv(65536), b""))
                    assert text.startswith(b"HTTP/1.1 200" if b"host" in begun else b"")
        finally:
            web.should_exit = True
            thread.join()


def test_a_bucket_fills_again() -> None:
    now = [0.0]
    bucket = Limiter(2, 0.5, lambda: now[0])
    assert [bucket.wait("a"), bucket.wait("a"), bucket.wait("a"), bucket.wait("b")] == [0, 0, 2, 0]
    now[0] = 2.0
    assert [bucket.wait("a", 0), bucket.wait("a"), bucket.wait("a", 0)] == [0, 0, 2]
    for k in range(2 * Limiter.FORGET):
        now[0] += 4
        bucket.wait(k)
    assert len(bucket._left) <= Limiter.FORGET + 1


def test_another_student_s_token_is_refused(server: Server) -> None:
    ann, ben = Student(server), Student(server)
    ann.path = ben.path
    refused(ann.send(PASS), 403, "token is that of another student")
    refused(
        server.client.delete(f"/api/students/{ben.number}", headers=ann.headers), 403, "another"
    )
    refused(ann.send(PASS, headers={}), 401, "There is no token")
    refused(ann.send(PASS, headers={"authorization": "Bearer x"}), 401, "of nobody in this class")
    assert server.store.standings() == []


@pytest.mark.parametrize(("event", "words"), [
    (PASS | {"exercise": "07/ring_tine"}, "no exercise '07/ring_tine' in this course. Did you"),
    (PASS | {"exercise": ["07"]}, "no exercise"),
    (WRONG | {"key": "my own words"}, "names no mistake 'my own words'"),
    (PASS | {"key": "nan"}, "names no mistake 'nan'"),
    (WRONG | {"key": ""}, "names no mistake ''"),
    (PASS | {"verdict": "great"}, "must be 'passed' or 'refused'"),
    (PASS | {"attempt": 0}, "whole number from 1"),
    (PASS | {"attempt": True}, "whole number from 1"),
    (PASS | {"attempt": 10**30}, "whole number from 1"),
    (PASS | {"code": "def f(): ..."}, "a field 'code': only id, exercise, attempt, verdict, key"),
    (PASS | {"id": "1"}, "32 hexadecimal digits"),
])  # fmt: skip
def test_an_event_of_another_form_is_refused_with_all_that_came_with_it(
    server: Server, event: Any, words: str
) -> None:
    student = Student(server)
    event = {"id": "f" * 32} | event
    answer = student.send(PASS, event)
    refused(answer, 422, words)
    assert answer.json().get("event") == (event["id"] if len(event["id"]) == 32 else None)
    assert server.store.standings() == []


def test_a_body_that_is_no_small_json_object_is_refused(server: Server) -> None:
    student = Student(server)
    head = student.headers | {"content-type": "application/json"}

    def post(content: Any, **more: str) -> Any:
        return server.client.post(student.path, content=content, headers=head | more)

    large = b" " * 65_537
    refused(post(large), 413, "more than 65,536 bytes")
    refused(post(iter([large[:40_000]] * 2)), 413, "more than 65,536 bytes")  # says no length
    for text in (b"{", b"\xff", b"[" * 60_000, b"", b'{"events": 1' + b"0" * 5000 + b"}"):
        refused(post(text), 400, "not JSON")
    refused(post(b"[]"), 400, "a JSON list: send one JSON object")
    refused(post(b"{}"), 422, "list of at most 100 events")
    refused(post(json.dumps({"events": [{}] * 101})), 422, "list of at most 100 events")
    refused(post(b'{"events": [7]}'), 422, "must be a JSON object")
    kind = {"content-type": "text/plain"}  # what another site's page may send unasked
    refused(post(b'{"events": []}', **kind), 415, "'text/plain': send application/json")


def test_the_page_is_the_instructor_s(server: Server) -> None:
    student = Student(server, "ann")
    ask = server.client.get
    refused(ask("/api/class"), 401, "There is no token")
    refused(ask("/api/class", headers=student.headers), 403, "not the instructor's key")
    for place in ("/", "/page.js", "/page.css"):
        assert ask(place).status_code == 200 and "ann" not in ask(place).text.split()
    refused(ask("/api/students"), 404, "GET /api/students is not something")
    refused(ask("/api/join"), 405, "GET /api/join is not something")


def test_every_answer_forbids_what_no_page_here_needs(server: Server) -> None:
    for place in ("/", "/page.js", "/api/class", "/nowhere"):
        answer = server.client.get(place, headers={"origin": "http://elsewhere"})
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not any(name.startswith("access-control") for name in answer.headers)
    page = server.client.get("/").text
    assert "<style" not in page and "style=" not in page and "http" not in page


def test_secrets_are_compared_in_constant_time(server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr(store.hmac, "compare_digest", lambda one, other: True)
    assert server.store.is_code("AAAA-AAAA") and server.store.is_key("x")


def test_no_token_is_in_the_file_and_nobody_else_may_read_it(server: Server) -> None:
    student = Student(server)
    token = student.headers["authorization"].removeprefix("Bearer ").encode()
    folder = server.store.file.parent
    files = [path for path in folder.iterdir() if path.name.startswith("class.sqlite")]
    assert any(path.name.endswith("-wal") for path in files)
    assert all(token not in path.read_bytes() for path in files)
    assert {path.stat().st_mode & 0o077 for path in (folder, *files)} == {0}


# --- files and commands -------------------------------------------------------------------------


def test_one_server_for_a_folder(server: Server) -> None:
    with pytest.raises(BadInput, match="another `dtlib class serve` is using"):
        Store(server.store.file.parent, new=True)


@pytest.mark.parametrize("content", [b"thesis " * 500, None])
def test_a_file_that_is_no_class_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / store.FILE
    if content is None:
        with sqlite3.connect(file) as db:
            db.execute("PRAGMA user_version = 7")
        content = file.read_bytes()
    file.write_bytes(content)
    with pytest.raises(BadInput, match="cannot be used as the file of a class"):
        Store(tmp_path, new=True)
    assert file.read_bytes() == content


def test_the_report_has_a_row_for_each_student_and_exercise(
    server: Server, capsys: Any, tmp_path: Path
) -> None:
    Student(server, "ann").send(*[WRONG] * 3, PASS)
    ben = Student(server, "ben")
    ben.send(WRONG)
    server.client.delete(f"/api/students/{ben.number}", headers=ben.headers)
    folder, to = str(server.store.file.parent), tmp_path / "class.csv"
    assert cli.main(["class", "report", "--folder", folder, "--to", str(to)]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "global_mean" in line)
    assert row.split() == ["07/global_mean", "1", "0", "0", "1", "1", "×", "nan"]
    whole = [line.split(",") for line in to.read_text().splitlines()]
    rows = [[*line[:5], line[6]] for line in whole[1:]]
    assert all(line[5].startswith("20") for line in whole[1:])  # a date
    assert rows == [
        ["ann", "07/global_mean", "stuck", "3", "3", "nan"],
        ["ann", "07/ring_time", "passed", "1", "0", ""],
        ["left 2", "07/global_mean", "trying", "1", "1", "nan"],
    ]


@pytest.mark.parametrize(("words", "said"), [
    ("report --folder nowhere", "there is no class in nowhere"),
    ("serve --port 99999", "--port is 99999; it must be"),
    ("serve --students 0", "--students is 0; it must be"),
    ("serve --address 203.0.113.9 --folder new", "cannot listen on 203.0.113.9, port 8733"),
    ("serv", "Did you mean 'serve'?"),
])  # fmt: skip
def test_a_wrong_command_is_refused_and_leaves_no_class(
    words: str, said: str, capsys: Any, own_folder: None
) -> None:
    assert cli.main(["class", *words.split()]) == 2
    assert said in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


def test_a_port_that_is_in_use_is_named(own_folder: None, capsys: Any, taken_port: int) -> None:
    words = ["class", "serve", "--address", "127.0.0.1", "--port", str(taken_port)]
    assert cli.main(words) == 2
    assert f"port {taken_port} (address already in use)" in capsys.readouterr().err


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def test_every_exercise_of_the_course_is_known_with_sentences_without_braces() -> None:
    from dtlib.learn import rooms
    from dtlib.learn.source import find

    known = catalogue()
    assert {one.lesson for one in known.values()} >= {"00", "07", "16", "25"}
    of_07 = [name for name in known if name.startswith("07/")]
    assert {f"07/{name}" for name in rooms.module(find("07"), "exercises").EXERCISES} == set(of_07)
    for exercise in known.values():
        assert {"raised", "waits"} <= exercise.sentences.keys()
        assert not any("{" in text or "……" in text for text in exercise.sentences.values())
    assert without_numbers("{'You' if x else y} got {a:.2f} {b}: {{}}.") == "… got …: {}."
    assert app.HERE.joinpath("page.html").exists()


@pytest.mark.parametrize(("host", "words"), [
    ("192.168.1.20", "listens on http://192.168.1.20:8733 and nowhere else."),
    ("127.0.0.1", "and nowhere else, which only this machine can reach."),
    ("0.0.0.0", "listens on every address of this machine, such as http://192.168.1.20:8733."),
])  # fmt: skip
def test_the_start_says_where_it_listens_and_what_is_whose(
    server: Server, host: str, words: str
) -> None:
    said = greeting(server.view, "http://192.168.1.20:8733", host)
    assert words in said
    board, alone = said.split("For you alone")
    assert server.store.code in board and server.view.line in board
    assert server.store.key not in board and server.store.key in alone
