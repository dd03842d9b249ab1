"""The ``frametap`` command: picks the command's module and turns our errors into one line.

In: ``sys.argv``. Out: an exit status. 0: done; 1: the command found a problem; 2: it could not be
done, one line on stderr says why. ``frametap run`` exits as the program does.
Invariant: only what the chosen command needs is imported; never a traceback for an error that is ours.
"""

from __future__ import annotations

import os
import sys

from ..errors import FrametapError
from ..version import __version__

COMMANDS = {
    "run": "run a program and record its calls",
    "report": "functions, call sites and threads as tables",
    "export": "write a timeline or profile for another tool",
    "info": "what a capture holds; --check validates it",
    "dump": "one table as text, a row a line",
    "recover": "make a capture of what a killed process left",
}

USAGE = """\
usage: frametap COMMAND ...

A call tracer for Python.

{commands}

frametap COMMAND --help   explains a command
frametap --version        prints the version
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    name = argv[0] if argv else "--help"
    if name == "--version":
        print(f"frametap {__version__}")
        return 0
    if name in ("-h", "--help", "help"):
        commands = "\n".join(f"  {command:<9} {meaning}" for command, meaning in COMMANDS.items())
        print(USAGE.format(commands=commands), end="")
        return 0 if argv else 2
    if name not in COMMANDS:
        return fail(f"{name!r} is not a command; there are {', '.join(COMMANDS)}")
    if name == "run":
        # The program's own exceptions pass through here untouched.
        from . import run

        return run.main(argv[1:])
    return _run_command(name, argv[1:])


def fail(message: object) -> int:
    """Say on stderr why it cannot be done; returns exit status 2."""
    print(f"frametap: {message}", file=sys.stderr)
    return 2


def _run_command(name: str, arguments: list[str]) -> int:
    import argparse
    from importlib import import_module

    for stream in (sys.stdout, sys.stderr):  # names in a trace can be anything, terminals cannot
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    command = import_module(f"frametap.cli.{name}")
    parser = argparse.ArgumentParser(prog=f"frametap {name}", description=command.__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_arguments(parser)
    try:
        status: int = command.run(parser.parse_args(arguments))
        sys.stdout.flush()
        return status
    except FrametapError as error:
        return fail(error)
    except BrokenPipeError:  # frametap dump | head: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush is quiet too
        return 1
    except OSError as error:
        return fail(error)
    except KeyboardInterrupt:
        return 130
