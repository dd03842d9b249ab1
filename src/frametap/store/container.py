"""Reads the ZIP around a capture: finds its members, all stored, and their bytes.

In: any file. Out: members by name. Invariant: nothing is extracted to a path, no count in the file is
believed beyond the file's size, and everything wrong is a :class:`CaptureError` or a sentence in
``damage``. A ZIP without its directory (a copy that was cut) is read by its members' own headers.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

from ..errors import CaptureError

_LOCAL = struct.Struct("<4s5H3I2H")  # signature … flags, method, … crc32, compressed, size, name, extra
_SIGNATURE = b"PK\x03\x04"
_ZIP64_EXTRA = 1


class Member(NamedTuple):
    """Where a member's bytes lie, after what the file really has; ``whole``: all of them are there."""

    offset: int
    bytes: int
    crc32: int
    whole: bool


class Container:
    """A ZIP of stored members, open for reading.

    Raises
    ------
    CaptureError
        If the file is no such ZIP or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members: dict[str, Member] = {}
        self.damage: list[str] = []
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise CaptureError(path, f"cannot be opened: {error.strerror or error}") from None
        try:
            self.bytes = os.fstat(self._fd).st_size
            self._find_members()
        except OSError as error:
            self.close()
            raise CaptureError(path, f"cannot be read: {error.strerror or error}") from None
        except CaptureError:
            self.close()
            raise

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        """Bytes of the file; fewer at its end. Callers bound ``n_bytes`` by a member's."""
        return os.pread(self._fd, n_bytes, offset)

    def read(self, name: str) -> bytes | None:
        """A whole member, or None, with a sentence in ``damage`` unless it was not there at all."""
        member = self.members.get(name)
        if member is None:
            return None
        if not member.whole:
            self.damage.append(f"{name} is cut and was not read")
            return None
        try:
            data = self.read_at(member.offset, member.bytes)
        except OSError as error:
            self.damage.append(f"{name}: {error.strerror or error}")
            return None
        if zlib.crc32(data) != member.crc32:
            self.damage.append(f"{name} has a wrong checksum and was not read")
            return None
        return data

    def close(self) -> None:
        """Close the file; harmless when closed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:  # `frametap.open(path).trace()` drops the capture without closing it
        self.close()

    def _find_members(self) -> None:
        start = self.read_at(0, 4)
        if start != _SIGNATURE:
            what = "is empty" if not start else f"starts with {start!r}"
            raise CaptureError(
                self.path,
                f"{what}; a frametap capture is a ZIP file and starts with {_SIGNATURE!r}: is it the right file?",
            )
        try:
            with os.fdopen(os.dup(self._fd), "rb") as file, zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
        # zipfile leaks struct.error, ValueError, UnicodeError, NotImplementedError … on hostile files.
        except Exception:  # noqa: BLE001
            self.damage.append(
                "the directory at the end is missing or damaged (was the copy cut?); members were searched for"
            )
            self._search_members()
            return
        n_again = 0
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
                raise CaptureError(
                    self.path,
                    f"member {entry.filename!r} is compressed or encrypted; captures store their members as they are: "
                    "unpack it and pack it again with `zip -0`",
                )
            if entry.filename in self.members:
                n_again += 1
                continue
            found = self._local(entry.header_offset)
            if found is None or found[0] != entry.filename.encode("utf-8", "surrogateescape"):
                self.damage.append(f"{_shown(entry.filename)}: the directory points to another place")
                continue
            self._add(entry.filename, found[1], entry.file_size, entry.CRC)
        if n_again:
            self.damage.append(f"{n_again} members have a name that another has; the first of each was read")

    def _search_members(self) -> None:
        at = 0
        while (found := self._local(at)) is not None:
            name, offset, size, crc32 = found
            text = name.decode("utf-8", "replace")
            if text not in self.members:
                self._add(text, offset, size, crc32)
            at = offset + size

    def _local(self, at: int) -> tuple[bytes, int, int, int] | None:
        """Name, offset of the data, size and crc32 of the stored member whose header is at ``at``."""
        if not 0 <= at <= self.bytes - _LOCAL.size:
            return None
        signature, _, _, method, _, _, crc32, _, size, n_name, n_extra = _LOCAL.unpack(self.read_at(at, _LOCAL.size))
        if signature != _SIGNATURE or method != zipfile.ZIP_STORED:
            return None
        rest = self.read_at(at + _LOCAL.size, n_name + n_extra)
        if size == 0xFFFFFFFF:
            kind, n, size64 = struct.unpack("<HHQ", rest[n_name : n_name + 12].ljust(12, b"\0"))
            size = size64 if kind == _ZIP64_EXTRA and n >= 8 else 0
        return rest[:n_name], at + _LOCAL.size + n_name + n_extra, size, crc32

    def _add(self, name: str, offset: int, size: int, crc32: int) -> None:
        here = max(0, min(size, self.bytes - offset))
        if here < size:
            self.damage.append(f"{_shown(name)} is cut: {here} of {size} bytes are there")
        self.members[name] = Member(offset, here, crc32, here == size)


def _shown(name: str) -> str:
    return repr(name) if len(name) < 100 else repr(name[:100]) + "…"
