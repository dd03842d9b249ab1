"""Packs a spool into a capture.

In: a spool folder. Out: one ZIP file in the layout of docs/format.md, under its final name only when it
is whole; then the spool is removed. Invariants: memory does not grow with the number of events; the
spool is untouched until the capture is in place.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CaptureError
from ..version import __version__
from . import frames
from .alive import still_recording
from .format import CAPTURE_FORMAT, EVENTS_NAME, FORMAT_VERSION
from .process_record import ProcessRecord
from .segments import INDEX_DTYPES
from .spool import Spool

Progress = Callable[[int, int], None]


def pack(spool: Path, output: Path, *, progress: Progress | None = None, complete: bool = True) -> None:
    """Write a capture from a spool and remove the spool.

    Parameters
    ----------
    spool : Path
        The ``.part`` folder.
    output : Path
        The capture; replaced if it exists.
    progress : callable, optional
        Called with (bytes done, bytes in total) now and then, and at the end.
    complete : bool
        False: this is what killed processes left; stored in the capture's ``meta["complete"]``.

    Raises
    ------
    CaptureError
        The spool cannot be read or the capture not be written. The spool is then as it was.
    NewerFormatError
    """
    spool, output = Path(spool), Path(output)
    source = Spool(spool)
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            _write(archive, source, progress, complete)
        os.replace(temporary, output)
    except OSError as error:
        raise CaptureError(
            output,
            f"cannot be written: {error.strerror or error}; what was recorded is still in {spool}: "
            f"make room and run `frametap recover {spool}`",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    _remove(spool)


def _remove(spool: Path) -> None:
    # Under another name first: half a spool beside its capture would look like something to recover.
    gone = spool.with_name(f".{spool.name}.{os.getpid()}.packed")
    with contextlib.suppress(OSError):
        os.replace(spool, gone)
        shutil.rmtree(gone, ignore_errors=True)


def _write(archive: zipfile.ZipFile, source: Spool, progress: Progress | None, complete: bool) -> None:
    meta = {
        **source.meta,
        "format": CAPTURE_FORMAT,
        "format_version": FORMAT_VERSION,
        "packed_by": __version__,
        "complete": complete,
    }
    _write_json(archive, "meta.json", meta)
    sizes = [_size(folder / EVENTS_NAME) for folder in source.folders]
    total, before = sum(sizes), 0
    for i, (folder, size) in enumerate(zip(source.folders, sizes, strict=True)):
        record = source.read_process(folder)
        if i == 0:
            record.add_damage(*source.damage)
        if still_recording(record) and record.info["pid"] != os.getpid():
            record.add_damage("the process was still running when it was packed; what it did later is missing")

        def report(share: float, size: int = size, before: int = before) -> None:
            if progress is not None:
                progress(before + int(size * share), total)

        # Events come last but for their index: of a capture that is cut, everything before is whole.
        at = f"processes/{i}/"
        known = record.damage
        _write_json(archive, at + "process.json", {**record.parts.to_json(), "damage": known})
        _write_json(archive, at + "tables.json", record.tables.to_json())
        with archive.open(_info(at + "events.zst"), "w", force_zip64=True) as events:
            index = _write_events(events, record, report)
        _write_json(archive, at + "segments.json", {**index, "damage": record.damage[len(known) :]})
        record.close()
        before += size
    if progress is not None:
        progress(total, total)


def _write_events(out: IO[bytes], record: ProcessRecord, report: Callable[[float], None]) -> dict[str, Any]:
    """Write all frames of a process; returns the content of its segments.json."""
    index = record.index
    done_words = 0
    position = 0
    rows_of: dict[str, NDArray[Any]] = {
        "frame": np.zeros(len(index), np.int64),
        "first_word": np.zeros(len(index), np.int64),
        "n_words": np.zeros(len(index), np.int64),
    }
    frame_columns: dict[str, list[int]] = {"offset": [], "bytes": [], "n_words": [], "crc32": []}
    for number, (rows, parts) in enumerate(_groups(record)):
        lengths = np.array([len(p) for p in parts], np.int64)
        n_words = int(lengths.sum())
        here = slice(rows.start, rows.stop)
        rows_of["frame"][here] = number
        rows_of["n_words"][here] = lengths
        rows_of["first_word"][here] = np.cumsum(lengths) - lengths
        listed = np.zeros(len(rows), frames.SKIP_ROW)
        for name in INDEX_DTYPES:
            listed[name] = lengths if name == "n_words" else getattr(index, name)[here]
        frame, crc32 = frames.encode(parts)
        before = frames.skip_frame(listed, frame, crc32)
        out.write(before)
        out.write(frame)
        for name, value in (("offset", position + len(before)), ("bytes", len(frame)), ("n_words", n_words)):
            frame_columns[name].append(value)
        frame_columns["crc32"].append(crc32)
        position += len(before) + len(frame)
        done_words += n_words
        report(done_words / max(1, index.total_words))
    segments = {n: getattr(index, n).tolist() for n in ("thread", "sequence", "tick", "monotonic_ns")}
    segments.update({n: c.tolist() for n, c in rows_of.items()})
    return {"segments": segments, "frames": frame_columns}


def _groups(record: ProcessRecord) -> Iterator[tuple[range, list[NDArray[np.uint64]]]]:
    """Consecutive rows whose words make one frame, in index order."""
    parts: list[NDArray[np.uint64]] = []
    first = 0
    n_words = 0
    for row in range(len(record.index)):
        more = int(record.index.n_words[row])
        if parts and n_words + more > frames.FRAME_WORDS:
            yield range(first, row), parts
            parts, first, n_words = [], row, 0
        words = record.words(row)
        parts.append(np.zeros(0, np.uint64) if words is None else words)
        n_words += more
    if parts:
        yield range(first, len(record.index)), parts


def _write_json(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    archive.writestr(_info(name), json.dumps(value, separators=(",", ":")))


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)  # a fixed date: the same spool gives the same bytes
    info.external_attr = 0o644 << 16
    return info


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
