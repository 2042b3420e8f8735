"""Pickle what a parent and its ranks send each other: cloudpickle, with two changes."""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from types import CodeType
from typing import Any

import cloudpickle

from dtlib.errors import DtlibError


class _Pickler(cloudpickle.Pickler):
    """Code keeps its file name, for tracebacks; GPU tensors are sent as CPU tensors."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, CodeType):  # both sides run the same Python, which marshal requires
            return marshal.loads, (marshal.dumps(obj),)
        torch = sys.modules.get("torch")
        if torch and isinstance(obj, torch.Tensor) and obj.device.type not in ("cpu", "meta"):
            return obj.detach().cpu().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return super().reducer_override(obj)


def dumps(value: Any) -> bytes:
    """Pickle anything that can be sent, functions and classes of `__main__` by value."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def pack_result(value: Any) -> bytes:
    """Pickle what a rank's function returned, or explain that it cannot be sent."""
    try:
        return dumps(value)
    except Exception as error:
        raise DtlibError(
            f"The result, a {type(value).__name__}, cannot be sent back from a rank ({error}); "
            "return numbers, text, tensors, or lists and dicts of them."
        ) from None


def unpack_result(packed: bytes, rank: int) -> Any:
    """Unpickle what rank `rank` returned, or explain that it cannot be unpickled."""
    try:
        return pickle.loads(packed)
    except Exception as error:
        raise DtlibError(
            f"The result of rank {rank} arrived, but cannot be unpickled here "
            f"({type(error).__name__}: {error}); return numbers, text, tensors, or lists and "
            "dicts of them."
        ) from error


def pack_error(error: DtlibError) -> bytes | None:
    """Pickle an error that dtlib explains; `None` if it cannot be unpickled."""
    try:
        packed = dumps(error)
        pickle.loads(packed)
    except Exception:  # a class of the user's own: then only its text is sent
        return None
    return packed
