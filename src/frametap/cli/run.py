"""Run a program and record every call of every thread into a capture.

The program runs as it would under python: same arguments, same output, same exit status. When it has
ended, a short summary goes to stderr. Options after the script belong to the script.
"""

from __future__ import annotations

import atexit
import os
import sys

from ..errors import FrametapError
from .program import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from ..record import Tap

USAGE = "frametap run [options] script.py args...\n       frametap run [options] -m module args...\n       frametap run [options] -c code args..."


def main(arguments: list[str]) -> int:
    """Run ``frametap run`` with ``arguments``; what the program raises comes out."""
    from .main import fail

    own, kind, target, rest = split(arguments)
    options = _parse(own)
    if not kind:
        return fail("run needs a script, -m module or -c code; see frametap run --help")
    try:
        from ..record import trace

        program = load(kind, target, rest)
        output = options.output or f"{program.name}.ftap"
        tap = trace(output, engine=options.engine, c_calls=options.c_calls, gc=options.gc)
        if program.is_there:
            tap.start()
            # Before anything of the program's, so after it at exit: its threads and handlers are recorded.
            atexit.register(_finish, tap, os.path.abspath(output), os.getpid(), options.quiet)
    except FrametapError as error:
        return fail(error)
    except OSError as error:
        # As python says it, and with its exit status.
        return fail(f"can't open file {error.filename!r}: [Errno {error.errno}] {error.strerror}")
    program.run()
    return 0


def split(arguments: list[str]) -> tuple[list[str], str, str, list[str]]:
    """Tell our options from the program and its arguments, as python does for itself.

    Returns
    -------
    own : list of str
        Our options.
    kind : str
        "script", "module", "command", or "" if there is no program.
    target : str
        Path, module name or code.
    rest : list of str
        The program's arguments.

    Examples
    --------
    >>> split(["-q", "-o", "x.ftap", "a.py", "-o", "y"])
    (['-q', '-o', 'x.ftap'], 'script', 'a.py', ['-o', 'y'])
    >>> split(["-mjson.tool", "-h"])
    ([], 'module', 'json.tool', ['-h'])
    """
    i = 0
    while i < len(arguments):
        argument = arguments[i]
        if argument == "--":
            i += 1
            break
        if argument[:2] in ("-m", "-c"):
            kind = "module" if argument[1] == "m" else "command"
            attached = [argument[2:]] if argument[2:] else []
            target, *rest = [*attached, *arguments[i + 1 :]] or [""]
            return arguments[:i], kind if target else "", target, rest
        if argument == "-" or not argument.startswith("-"):
            break
        i += 2 if argument in ("-o", "--output", "--engine") else 1
    own = [argument for argument in arguments[:i] if argument != "--"]
    if i >= len(arguments):
        return own, "", "", []
    return own, "script", arguments[i], arguments[i + 1 :]


def _parse(own: list[str]) -> argparse.Namespace:
    import argparse

    parser = argparse.ArgumentParser(prog="frametap run", usage=USAGE, description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the capture (default: the program's name with .ftap, in the current folder)",
    )
    parser.add_argument(
        "--c-calls", action="store_true", help="record calls of C functions too (self time then excludes them)"
    )
    parser.add_argument("--no-gc", dest="gc", action="store_false", help="do not record garbage collections")
    parser.add_argument(
        "--engine", default="auto", help="auto (default), frame_hook, set_profile or monitoring: how calls are seen"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    return parser.parse_args(own)


def _finish(tap: Tap, wished: str, pid: int, quiet: bool) -> None:
    """Stop, write the capture, print the summary. The interpreter's last exit handler but one.

    Threads cannot be started any more (3.12), and whatever goes wrong, the exit status stays the program's.
    """
    if os.getpid() != pid:  # a forked child: the capture is its parent's
        return
    from ..record.session import keep_interrupted_status
    from .progress import progress
    from .summary import say, summarise

    try:
        with progress("writing", quiet) as show:
            tap.stop(progress=show)
        if not quiet:
            summarise(str(tap.path), wished)
    except FrametapError as error:
        say(f"frametap: {error}")
    except Exception as error:  # the summary is not worth a traceback after the program's own output
        say(f"frametap: no summary ({type(error).__name__}: {error}); the capture is {tap.path}")
    except KeyboardInterrupt:
        say(f"frametap: interrupted; see {tap.path} or {tap.path}.part")
    finally:
        keep_interrupted_status()
