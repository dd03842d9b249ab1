"""Reads a spool folder, process by process.

In: ``X.ftap.part/`` in any state: being written, left by killed processes, damaged. Out: its spool.json
and a :class:`ProcessRecord` for each process folder. Invariant: only a newer format or a folder that is
no spool is an error; everything else is read as far as it goes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ..errors import CaptureError, NewerFormatError
from .events_file import EventsFile
from .format import EVENTS_NAME, FILE_HEADER, FORMAT_VERSION, JOURNAL_NAME, PROCESS_NAME, SPOOL_NAME
from .process_record import ProcessParts, ProcessRecord
from .tables_journal import read_journal

_FOLDER = re.compile(r"p(\d{1,10})-(\d{1,10})")


class Spool:
    """A spool folder.

    Attributes
    ----------
    path : Path
    meta : dict
        Its spool.json, as far as it could be read, with ``format_version``.
    folders : list of Path
        Process folders, the root process's first, then in the order in which they started.
    damage : list of str

    Raises
    ------
    CaptureError, NewerFormatError
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: list[str] = []
        self.meta = self._read_object(path / SPOOL_NAME)
        version = self.meta.get("format_version")
        if type(version) is not int or version < 1:
            self.meta["format_version"] = FORMAT_VERSION
        elif version > FORMAT_VERSION:
            raise NewerFormatError(path, version, FORMAT_VERSION)
        try:
            found = [entry for entry in path.iterdir() if _FOLDER.fullmatch(entry.name) and entry.is_dir()]
        except OSError as error:
            raise CaptureError(path, f"cannot be read: {error.strerror or error}") from None
        if not found:
            raise CaptureError(path, "holds no process folder (p<pid>-<n>): nothing was recorded in it")
        self.folders = sorted(found, key=self._start_order)

    def read_process(self, folder: Path) -> ProcessRecord:
        """One process of :attr:`folders`."""
        damage: list[str] = []
        info = self._read_object(folder / PROCESS_NAME, damage)
        pid = int(_FOLDER.fullmatch(folder.name)[1])  # type: ignore[index]
        info.setdefault("pid", pid)
        options = info.get("options")
        source = EventsFile(folder / EVENTS_NAME, ring=isinstance(options, dict) and bool(options.get("keep")))
        source.close()  # a spool can have more processes than we may have open files
        tables, unread = read_journal(folder / JOURNAL_NAME)
        header = source.header
        parts = ProcessParts(
            folder=folder.name,
            info=info,
            clock_kind=header.clock_kind if header else "unknown",
            start=header.start if header else None,
            stop=header.stop if header else None,
            ticks_per_ns=header.ticks_per_ns if header else 1.0,
            losses=header.losses if header else {},
        )
        return ProcessRecord(parts, tables, source, [*damage, *unread])

    def _read_object(self, path: Path, damage: list[str] | None = None) -> dict[str, Any]:
        try:
            value = json.loads(path.read_bytes())
            if isinstance(value, dict):
                return value
            problem = "is no JSON object"
        except OSError as error:
            problem = error.strerror or str(error)
        except (ValueError, RecursionError):
            problem = "is no valid JSON"
        (self.damage if damage is None else damage).append(f"{path.name}: {problem}")
        return {}

    def _start_order(self, folder: Path) -> tuple[bool, int, int, int]:
        pid, number = map(int, _FOLDER.fullmatch(folder.name).groups())  # type: ignore[union-attr]
        start = 0
        try:
            with (folder / EVENTS_NAME).open("rb") as file:
                head = file.read(FILE_HEADER.size)
            start = FILE_HEADER.unpack(head)[6] if len(head) == FILE_HEADER.size else 0
        except OSError:
            pass
        return pid != self.meta.get("root_pid"), start, pid, number
