"""The few lines on stderr after ``frametap run``.

In: the capture just written. Out: text on the program's real stderr. Rich is not used: importing it
would be most of the time that the summary takes.
"""

from __future__ import annotations

import os
import shlex
import sys

from .progress import progress
from .tables import duration, function_name, plain, size

_N_FUNCTIONS = 10
_MAX_BYTES = 150_000_000  # of capture, about 50 million calls: above, reading it at once takes too long and too much


def say(text: str) -> None:
    """Write to the real stderr, whatever the program did to it; quietly nothing if it is gone."""
    stream = sys.__stderr__
    try:
        if stream is not None:
            encoding = stream.encoding or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            stream.flush()
    except (OSError, ValueError):
        pass


def summarise(path: str, wished: str) -> None:
    """Print the summary of the capture at ``path``; ``wished`` is the name it was to have."""
    try:  # what the program printed comes first
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
    except (OSError, ValueError):
        pass
    shown = _short(path)
    n_bytes = os.path.getsize(path)
    lines = []
    if path != wished:
        lines.append(f"  {wished} was taken: {wished}.part is there, of another recording or one that was killed")
    if n_bytes <= _MAX_BYTES:
        lines = [*_tables(path, f"{shown} ({size(n_bytes)})"), *lines]
    else:
        lines.insert(0, f"frametap: {shown} ({size(n_bytes)}); too much for a summary here")
    name = os.path.splitext(shown)[0]
    lines.append(f"  next: frametap report {shlex.quote(shown)}   or   frametap export {shlex.quote(shown)} ")
    lines[-1] += shlex.quote(f"{name}.pftrace")
    say("\n".join(lines))


def _tables(path: str, title: str) -> list[str]:
    from ..analyse import functions
    from ..opened import open
    from .about import c_calls_recorded, extent, missing_in_short, working_folder

    with open(path) as capture, progress("reading") as show:
        trace = capture.trace(progress=show)
    stats = functions(trace)
    folder = working_folder(trace)
    rows = [
        (f"{row['calls']:,}", duration(row["self_ns"]), duration(row["total_ns"]), function_name(row, folder))
        for row in stats.head(_N_FUNCTIONS)
    ]
    table = plain((("calls", True), ("self", True), ("total", True), ("function", False)), rows)
    lines = [f"frametap: {extent(trace)}; {title}"]
    lines += [f"  {line}" for line in table.splitlines()]
    if len(stats) > _N_FUNCTIONS:
        lines.append(f"  ... and {len(stats) - _N_FUNCTIONS:,} more functions")
    if not c_calls_recorded(trace):
        lines.append("  self time includes C functions; --c-calls records them")
    return [*lines, *(f"  {line}" for line in missing_in_short(trace))]


def _short(path: str) -> str:
    """Relative if it is in the current folder, which the program may have removed."""
    try:
        folder, name = os.path.split(path)
        return name if folder == os.getcwd() else path
    except OSError:
        return path
