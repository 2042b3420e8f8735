"""Read what arrives: JSON of a known form and size, from somebody who may send it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request

from dtlib.errors import did_you_mean
from dtlib.learn.classroom import BATCH, PASSED, REFUSED
from dtlib.lessons.class_view.overview import Exercise
from dtlib.lessons.class_view.refusals import Refused
from dtlib.lessons.class_view.store import Event

MOST = 65_536  # bytes of a body; a full batch of events has about a third of it
SECONDS = 10.0  # for a body to arrive in
_ID = re.compile(r"[0-9a-f]{32}")


async def content(request: Request, fields: Sequence[str]) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    Parameters
    ----------
    fields
        The names that it may have.

    Raises
    ------
    Refused
        For another content type, too many bytes, no JSON object, or a field of another name.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(
            415, f"The content type is {kind[:40] or 'missing'!r}: send application/json."
        )
    try:
        found = json.loads(await _body(request))
    except (ValueError, RecursionError):
        raise Refused(400, "The body is not JSON: send one JSON object.") from None
    if not isinstance(found, dict):
        raise Refused(400, f"The body is a JSON {type(found).__name__}: send one JSON object.")
    _only(found, fields)
    return found


async def _body(request: Request) -> bytes:
    too_large = Refused(413, f"The body has more than {MOST:,} bytes: send fewer events at once.")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:12]) > MOST:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > MOST:
                    raise too_large
    except ClientDisconnect:
        raise Refused(400, "The body ended too early: send it again.") from None
    except TimeoutError:
        raise Refused(
            408, f"The body did not arrive within {SECONDS:.0f} s: send it again."
        ) from None
    return bytes(body)


def _only(found: Mapping[str, Any], fields: Sequence[str], **more: Any) -> None:
    odd = sorted(found.keys() - set(fields))
    if odd:
        raise Refused(
            422, f"There is a field {odd[0][:40]!r}: only {', '.join(fields)} may be sent.", **more
        )


def text(found: Mapping[str, Any], name: str) -> str:
    """Return a field that has to be a text; raises `Refused` when it is none."""
    value = found.get(name)
    if not isinstance(value, str):
        raise Refused(422, f"The field {name!r} must be a text.")
    return value


def token_of(request: Request) -> str:
    """Return the token of the header `Authorization: Bearer`; raises `Refused` without one."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise Refused(401, "There is no token: send the header `Authorization: Bearer TOKEN`.")
    return token.strip()


def events(found: Mapping[str, Any], known: Mapping[str, Exercise]) -> list[Event]:
    """Return the events of a body.

    Raises
    ------
    Refused
        When one is not as it should be; the answer's field `event` then has its id, so that its
        sender can send the others again without it.
    """
    given = found.get("events")
    if not isinstance(given, list) or len(given) > BATCH:
        raise Refused(422, f"The field 'events' must be a list of at most {BATCH} events.")
    return [_event(one, known) for one in given]


def _event(one: Any, known: Mapping[str, Exercise]) -> Event:
    if not isinstance(one, dict):
        raise Refused(422, "Each event must be a JSON object.")
    mark = one.get("id")
    if not isinstance(mark, str) or not _ID.fullmatch(mark):
        raise Refused(422, "The id of an event must be 32 hexadecimal digits.")

    def refuse(sentence: str) -> Refused:
        return Refused(422, sentence, event=mark)

    _only(one, Event._fields, event=mark)
    exercise, attempt, verdict, key = (one.get(name) for name in Event._fields[1:])
    if not isinstance(exercise, str) or exercise not in known:
        near = did_you_mean(str(exercise)[:80], known)
        raise refuse(f"There is no exercise {str(exercise)[:80]!r} in this course.{near}")
    if not isinstance(attempt, int) or isinstance(attempt, bool) or not 1 <= attempt < 2**31:
        raise refuse("The number of an attempt must be a whole number from 1.")
    if verdict not in (PASSED, REFUSED):
        raise refuse(f"The verdict must be {PASSED!r} or {REFUSED!r}.")
    keys = known[exercise].sentences if verdict == REFUSED else ("",)
    if not isinstance(key, str) or key not in keys:
        raise refuse(f"The check of {exercise} names no mistake {str(key)[:80]!r}.")
    return Event(mark, exercise, attempt, verdict, key)
