"""Files of documents: their columns, and the text of one column, a batch of rows at a time.

Each format has the same two functions, `columns` and `texts`. Nothing is read whole, so a file may
be larger than the memory.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, Unavailable, in_words

ROWS = 1000  # that are read at a time
Texts = Iterator[list[str | None]]


@dataclass(frozen=True)
class Format:
    """How one kind of file is read.

    Attributes
    ----------
    name
        What it is called in a message.
    columns
        Returns the columns of a file in order, each with the type of its values ("string").
    texts
        Yields the values of a column, in batches; None where a row has none.
    """

    name: str
    columns: Callable[[Path], dict[str, str]]
    texts: Callable[[Path, str], Texts]


def _package(name: str, path: Path) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"reading {path} needs the package {name.partition('.')[0]} ({error}): run"
            " pip install datasets."
        ) from error


def _damaged(path: Path, error: Exception) -> BadInput:
    return BadInput(f"{path} cannot be read: {in_words(error)}; get the whole file.")


# -- parquet, and folders that datasets saved: tables of Arrow ------------------------------------


def _types(schema: Iterable[Any]) -> dict[str, str]:
    return {field.name: str(field.type).removeprefix("large_") for field in schema}


def _parquet(path: Path) -> Any:
    parquet = _package("pyarrow.parquet", path)
    if path.stat().st_size == 0:
        raise BadInput(f"{path} is empty (0 bytes): get the whole file.")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise _damaged(path, error) from error


def _parquet_texts(path: Path, column: str) -> Texts:
    file = _parquet(path)
    try:
        for batch in file.iter_batches(ROWS, columns=[column]):
            yield batch.column(0).to_pylist()
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _saved_columns(folder: Path) -> dict[str, str]:
    """Read the schema alone, because each rank asks for it and `datasets` takes seconds to load."""
    arrow = _package("pyarrow", folder)
    try:
        state = json.loads((folder / "state.json").read_text())
        with arrow.memory_map(str(folder / state["_data_files"][0]["filename"])) as file:
            return _types(arrow.ipc.open_stream(file).schema)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise _damaged(folder, error) from error


def _saved_texts(folder: Path, column: str) -> Texts:
    datasets = _package("datasets", folder)
    try:
        table = datasets.load_from_disk(str(folder)).select_columns([column])
        for first in range(0, len(table), ROWS):
            yield table[first : first + ROWS][column]
    except Exception as error:  # whatever is damaged: JSON, Arrow, a file that is missing
        raise _damaged(folder, error) from error


# -- JSON lines -----------------------------------------------------------------------------------


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line's number and object; raise `BadInput` for a line that is broken."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                cut = f" (it begins {line[:40].decode(errors='replace').strip()!r})"
                array = line.lstrip().startswith(b"[") and number == 1
                remedy = "write one object a line" if array else "correct that line or remove it"
                raise BadInput(
                    f"line {number} of {path} is not JSON in UTF-8{cut}: {remedy}."
                ) from error
            if not isinstance(value, dict):
                raise BadInput(
                    f"line {number} of {path} is not a JSON object but a {type(value).__name__}: "
                    'write one object a line, such as {"text": "…"}.'
                )
            yield number, value


def _lines_columns(path: Path) -> dict[str, str]:
    names = {str: "string", int: "int64", float: "double", bool: "bool", list: "list"}
    first = next(_objects(path), None)
    if first is None:
        raise BadInput(f"{path} is empty ({path.stat().st_size} bytes): get the whole file.")
    return {key: names.get(type(value), "null or object") for key, value in first[1].items()}


def _lines_texts(path: Path, column: str) -> Texts:
    rows: list[str | None] = []
    for number, value in _objects(path):
        text = value.get(column)
        if column not in value or not (text is None or isinstance(text, str)):
            wrong = f"not text but {json.dumps(text)[:40]}" if column in value else "missing"
            raise BadInput(
                f"{column!r} in line {number} of {path} is {wrong}: every line needs it as text"
                " (null for a row without)."
            )
        rows.append(text)
        if len(rows) == ROWS:
            yield rows
            rows = []
    yield rows


# -- text -----------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file; raise `BadInput` if it is none, or is empty."""
    try:
        # Bytes, because text mode would change line ends and with them the tokens.
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text: byte {error.start} cannot be read.") from error
    if not text.strip():
        raise BadInput(f"{path} is empty: get the whole file.")
    return text


def _whole(path: Path, column: str) -> Texts:
    yield [read_text(path)]


PARQUET = Format("parquet", lambda path: _types(_parquet(path).schema_arrow), _parquet_texts)
LINES = Format("JSON lines", _lines_columns, _lines_texts)
SAVED = Format("datasets", _saved_columns, _saved_texts)
TEXT = Format("text", lambda path: {"text": "string"}, _whole)
