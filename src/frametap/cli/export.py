"""Write a capture as a timeline or profile that another tool reads.

The format is taken from the file's suffix: .pftrace opens in ui.perfetto.dev, .json in chrome://tracing,
.pstats in the standard library's pstats.
"""

from __future__ import annotations

import argparse
import os

from ..opened import open
from .progress import progress
from .tables import size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ..export import FORMATS

    parser.add_argument("capture", help="X.ftap, or the X.ftap.part of a killed process")
    parser.add_argument("output", help="the file to write; replaced if it exists")
    formats = "; ".join(f"{name} ({', '.join(suffixes)})" for name, (suffixes, _) in FORMATS.items())
    parser.add_argument("--format", help=f"instead of by the suffix: {formats}")


def run(arguments: argparse.Namespace) -> int:
    from ..export import export, format_of

    format = format_of(arguments.output, arguments.format)  # before the long work
    with open(arguments.capture) as capture, progress("reading") as shown:
        trace = capture.trace(progress=shown)
    export(trace, arguments.output, format)
    print(f"{arguments.output}: {format}, {size(os.path.getsize(arguments.output))}")
    return 0
