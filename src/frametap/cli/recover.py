"""Make a capture of what a killed process left: X.ftap of X.ftap.part.

Everything that had been written until the kill is in it; calls that were running end there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .progress import progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spool", help="the folder X.ftap.part")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: the name the recording was to have")


def run(arguments: argparse.Namespace) -> int:
    from ..store import recover

    output = None if arguments.output is None else Path(arguments.output)
    with progress("packing") as shown:
        path = recover(Path(arguments.spool), output, progress=shown)
    print(f"recovered {path}")
    return 0
