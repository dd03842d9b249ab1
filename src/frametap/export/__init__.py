"""Exports: a trace as a file that other programs read. One file per format; ``docs`` are each module's head.

In: a trace and a path. Out: the file, complete or not there. Invariant: the same trace gives the same bytes.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from ..errors import OptionError
from ..table import Trace
from . import chrome, collapsed, perfetto, pstats

__all__ = ["FORMATS", "export", "format_of"]

#: name -> (suffixes, write)
FORMATS: dict[str, tuple[tuple[str, ...], Callable[[Trace, BinaryIO], None]]] = {
    "perfetto": ((".pftrace", ".perfetto-trace"), perfetto.write),
    "chrome": ((".json", ".json.gz"), chrome.write),
    "collapsed": ((".collapsed.txt", ".collapsed"), collapsed.write),
    "pstats": ((".pstats", ".prof"), pstats.write),
}


def export(trace: Trace, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a trace to a file that other programs read.

    Parameters
    ----------
    trace : Trace
        Any trace.
    path : path-like
        Replaced if it exists, once the new file is complete. A last suffix ``.gz`` compresses.
    format : str, optional
        A key of :data:`FORMATS`; by default the one that the path's suffix belongs to.

    Raises
    ------
    OptionError
        The format, or the suffix, is not known.

    Examples
    --------
    >>> frametap.export(trace, "run.pftrace")  # doctest: +SKIP
    """
    path = Path(path)
    write = FORMATS[format_of(path, format)][1]
    # In the same folder, so that the renaming cannot fail for another disk; hidden and of this process.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "wb") as raw:
            if path.name.lower().endswith(".gz"):
                # No name and no time in the header: the same trace gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", compresslevel=4, fileobj=raw, mtime=0) as packed:
                    write(trace, packed)  # type: ignore[arg-type]
            else:
                write(trace, raw)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the format that a path is to be written in.

    Raises
    ------
    OptionError
        The format, or the suffix, is not known; the message lists those that are.
    """
    known = "; ".join(f"{name} ({', '.join(suffixes)})" for name, (suffixes, _) in FORMATS.items())
    if format is not None:
        if format not in FORMATS:
            raise OptionError("format", f"unknown export format {format!r}; known are {known}")
        return format
    name = Path(path).name.lower()
    for one, (suffixes, _) in FORMATS.items():
        if name.endswith(suffixes):
            return one
    raise OptionError("path", f"{os.fspath(path)}: no export format has this suffix; known are {known}")


class _CallableModule(ModuleType):
    """``frametap.export(trace, path)``: the package and its one function share the name that users know."""

    def __call__(self, trace: Trace, path: str | os.PathLike[str], format: str | None = None) -> None:
        export(trace, path, format)


sys.modules[__name__].__class__ = _CallableModule
