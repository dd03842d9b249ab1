"""Tables on a terminal (rich) or as plain text, and how numbers and names are written in them.

In: headers and rows of text. Out: text. Invariant: without a terminal nothing is cut, coloured or
wrapped, and rich is not imported; no control character of a name reaches a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

#: (header, is a number)
Header = tuple[str, bool]


def plain(headers: Sequence[Header], rows: Sequence[Sequence[str]]) -> str:
    """The table as lines of text; numbers to the right, the last column not padded."""
    cells = [[name for name, _ in headers], *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    lines = []
    for row in cells:
        padded = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, (_, number) in zip(row, widths, headers, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def show(title: str, headers: Sequence[Header], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout, as fits it."""
    if not sys.stdout.isatty():
        print(f"{title}\n{plain(headers, rows)}\n")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, number in headers:
        table.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def duration(ns: int) -> str:
    """Nanoseconds with three digits and a unit.

    Examples
    --------
    >>> [duration(n) for n in (0, 999, 1234, 999_999, 56_700_000, 125_000_000_000)]
    ['0 ns', '999 ns', '1.23 us', '1.00 ms', '56.7 ms', '125 s']
    """
    if ns < 1000:
        return f"{ns} ns"
    value = ns / 1000
    for unit in ("us", "ms", "s"):
        if value < 999.5 or unit == "s":
            break
        value /= 1000
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"


def size(n_bytes: int) -> str:
    """Bytes with a unit.

    Examples
    --------
    >>> size(999), size(12_345_678)
    ('999 B', '12.3 MB')
    """
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{n_bytes} B" if unit == "B" else f"{value:.{1 if value < 99.95 else 0}f} {unit}"


def count(n: int, thing: str, plural: str = "") -> str:
    """A number of things.

    Examples
    --------
    >>> count(1, "call"), count(12345, "call"), count(2, "process", "processes")
    ('1 call', '12,345 calls', '2 processes')
    """
    return f"{n:,} {thing if n == 1 else plural or thing + 's'}"


def printable(text: str) -> str:
    """Without control characters and lone surrogates, which are written as escapes.

    Examples
    --------
    >>> print(printable("a\\x1b[31m\\n"))
    a\\x1b[31m\\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def place(file: str, line: int, folder: str) -> str:
    """``file:line``, short: relative to ``folder``, or from the library's name on.

    Examples
    --------
    >>> place("/w/app/main.py", 3, "/w"), place("/usr/lib/python3.11/json/decoder.py", 9, "/w"), place("", -1, "/w")
    ('app/main.py:3', 'json/decoder.py:9', '')
    """
    if not file:
        return ""
    if folder and file.startswith(os.path.join(folder, "")):
        file = file[len(os.path.join(folder, "")) :]
    else:
        for marker in ("/site-packages/", "/dist-packages/"):
            if marker in file:
                file = file.rpartition(marker)[2]
                break
        else:
            _, marker, after = file.rpartition("/lib/python3")
            if marker and "/" in after:
                file = after.partition("/")[2]
    return printable(file if line < 0 else f"{file}:{line}")


def function_name(row: Any, folder: str) -> str:
    """A function as it is shown: qualified name and where it is, or the module of a C function."""
    where = place(row["file"], row.get("line", -1), folder) or printable(row["module"])
    return f"{printable(row['name'])}  ({where})" if where else printable(row["name"])


def bullet_list(lines: Iterable[str]) -> str:
    """One line each, indented."""
    return "".join(f"  {line}\n" for line in lines)
