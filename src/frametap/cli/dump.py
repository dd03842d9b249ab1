"""Print one table of a capture, a row a line, columns separated by tabs; the first line names them.

Tables refer to one another by row number, from 0. The calls table has the call's name as its last column.
Control characters in names are written as escapes.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..opened import open
from ..table.schema import SCHEMA
from .progress import progress
from .tables import printable

_PIECE = 1 << 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", help="X.ftap, or the X.ftap.part of a killed process")
    parser.add_argument("table", nargs="?", choices=list(SCHEMA), default="calls", help="default: calls")


def run(arguments: argparse.Namespace) -> int:
    with open(arguments.capture) as capture, progress("reading") as shown:
        trace = capture.trace(progress=shown)
    table = getattr(trace, arguments.table)
    names = list(table)
    columns = [table[name] for name in names]
    if arguments.table == "calls":
        names.append("name")
        columns.append(trace.functions["name"][trace.sites["function"]])
    print("\t".join(names))
    for low in range(0, table.n_rows, _PIECE):
        piece = [column[low : low + _PIECE].tolist() for column in columns[: len(list(table))]]
        if arguments.table == "calls":
            piece.append(columns[-1][table["site"][low : low + _PIECE]].tolist())
        sys.stdout.write("".join("\t".join(map(_text, row)) + "\n" for row in zip(*piece, strict=True)))
    return 0


def _text(value: Any) -> str:
    return printable(value) if isinstance(value, str) else str(value)
