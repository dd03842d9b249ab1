"""Reads a process's tables.jsonl, the journal of its tables.

In: a file that a killed process may have left at any byte, or that is damaged. Out: :class:`Tables`
and sentences on what could not be read. Invariant: never raises on what the file holds.
"""

from __future__ import annotations

import json
from pathlib import Path

from .tables import Tables

_BATCH_BYTES = 1 << 20


def read_journal(path: Path) -> tuple[Tables, list[str]]:
    """The tables of one process.

    Returns
    -------
    tables : Tables
        Whatever could be read.
    damage : list of str
        What could not, as sentences.
    """
    tables = Tables()
    damage = []
    cut = False
    try:
        with path.open("rb") as file:
            while lines := file.readlines(_BATCH_BYTES):
                cut = _read_lines(lines, tables)
    except OSError as error:
        damage.append(f"{path.name}: {error.strerror or error}; names are missing")
    if cut:
        damage.append(f"{path.name}: the last line is cut; one description is missing")
    if tables.n_bad:
        damage.append(f"{path.name}: {tables.n_bad} lines could not be understood; names are missing")
    return tables, damage


def _read_lines(lines: list[bytes], tables: Tables) -> bool:
    """Add the rows of whole lines; returns whether the last line is cut."""
    try:
        # One call for many lines takes half the time of one for each.
        rows = json.loads(b"[" + b",".join(lines) + b"]")
    except (ValueError, RecursionError):
        rows = []
    if len(rows) == len(lines):
        for row in rows:
            tables.add(row)
        return False
    cut = False
    for line in lines:
        # The journal can be a mapped file: zeros are room that was not used.
        text = line.strip(b"\0\r\n\t ")
        try:
            row = json.loads(text) if text else None
        except (ValueError, RecursionError):
            if line.rstrip(b"\0").endswith(b"\n"):
                tables.n_bad += 1
            else:
                cut = True
            continue
        if text:
            tables.add(row)
    return cut
