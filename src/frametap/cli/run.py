"""``frametap run``: run a program and record every call of every thread into a capture.

In: our options, then a program and its arguments. Out: the program has run, exactly as under python;
its capture is written, and a summary is on stderr.
Invariant: next to nothing is imported before the program runs (which is why options are read by hand).
"""

from __future__ import annotations

import atexit
import os
import sys

from ..errors import FrametapError, OptionError
from .program import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..record import Tap

HELP = """\
usage: frametap run [options] script.py args...
       frametap run [options] -m module args...
       frametap run [options] -c code args...

Run a program and record every call of every thread into a capture.

The program runs as under python: same arguments, output and exit status. When it has ended, a short
summary goes to stderr. Options after the script belong to the script.

  -o, --output FILE   the capture (default: the program's name with .ftap, in the current folder);
                      an older one is replaced
  --c-calls           record calls of C functions too: self time then excludes them
  --no-gc             do not record garbage collections
  --engine ENGINE     how calls are seen: auto (default), frame_hook, set_profile or monitoring
  -q, --quiet         no summary
  -h, --help          this text

A program that is killed leaves FILE.part: frametap recover FILE.part
"""

_FLAGS = {
    "-q": ("quiet", True),
    "--quiet": ("quiet", True),
    "--c-calls": ("c_calls", True),
    "--no-gc": ("gc", False),
    "-h": ("help", True),
    "--help": ("help", True),
}
_WITH_VALUE = {"-o": "output", "--output": "output", "--engine": "engine"}


class Command:
    """A command line of ``frametap run``, taken apart.

    Attributes
    ----------
    options : dict
        What was given of output, engine, c_calls, gc, quiet and help.
    kind : str
        "script", "module" or "command" (-c); "" if there is no program.
    target : str
        Path, module name or code.
    arguments : list of str
        The program's.

    Examples
    --------
    >>> command = Command(["-q", "-o", "x.ftap", "a.py", "-o", "y"])
    >>> command.options, command.kind, command.target, command.arguments
    ({'quiet': True, 'output': 'x.ftap'}, 'script', 'a.py', ['-o', 'y'])
    >>> command = Command(["-mjson.tool", "-h"])
    >>> command.kind, command.target, command.arguments
    ('module', 'json.tool', ['-h'])
    """

    def __init__(self, words: list[str]) -> None:
        self.options: dict[str, Any] = {}
        self.kind = self.target = ""
        self.arguments: list[str] = []
        words = list(words)
        while words:
            word = words.pop(0)
            if word[:2] in ("-m", "-c"):
                rest = [word[2:], *words] if word[2:] else words
                if not rest:
                    raise OptionError(word, f"{word} needs a {'module' if word == '-m' else 'code'} after it")
                self._set_program("module" if word[1] == "m" else "command", rest)
                return
            if word == "--" or word == "-" or not word.startswith("-"):
                self._set_program("script", words if word == "--" else [word, *words])
                return
            if word in _FLAGS:
                name, value = _FLAGS[word]
                self.options[name] = value
                continue
            option, given, text = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
            if option not in _WITH_VALUE:
                raise OptionError(word, f"run has no option {word}; see frametap run --help")
            if not given and not words:
                raise OptionError(option, f"{option} needs a value")
            self.options[_WITH_VALUE[option]] = text if given else words.pop(0)

    def _set_program(self, kind: str, words: list[str]) -> None:
        if words:
            self.kind, (self.target, *self.arguments) = kind, words


def main(words: list[str]) -> int:
    """Run ``frametap run``; what the program raises comes out."""
    from .main import fail

    try:
        command = Command(words)
        options = command.options
        if options.pop("help", False):
            print(HELP, end="")
            return 0
        if not command.kind:
            return fail("run needs a script, -m module or -c code; see frametap run --help")
        quiet = options.pop("quiet", False)

        from ..record import trace

        program = load(command.kind, command.target, command.arguments)
        wished = os.path.abspath(options.pop("output", f"{program.name}.ftap"))
        tap = trace(wished, **options)
        if program.is_there:
            tap.start()
            # Before anything of the program's, so after it at exit: its threads and handlers are recorded.
            atexit.register(_finish, tap, wished, os.getpid(), quiet)
    except FrametapError as error:
        return fail(error)
    except OSError as error:
        if error.filename is None:
            return fail(error)
        # As python says it, and with its exit status.
        return fail(f"can't open file {error.filename!r}: [Errno {error.errno}] {error.strerror}")
    program.run()
    return 0


def _finish(tap: Tap, wished: str, pid: int, quiet: bool) -> None:
    """Stop, write the capture, print the summary.

    Runs as the interpreter's last exit handler but one, when no thread can be started any more (3.12).
    Whatever goes wrong, the exit status stays the program's.
    """
    if os.getpid() != pid:  # a forked child: the capture is its parent's
        return
    try:
        tap.end()  # first of all, so that nothing of ours is in the trace
    except FrametapError:  # the program found the tap and stopped it
        return
    # Where the program closed stdout, a file of ours must not become it: the interpreter's last flush would write
    # into it. Writing to a descriptor that was opened for reading fails just as writing to a closed one does.
    while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(descriptor)
    from ..record.session import keep_interrupted_status
    from .progress import progress
    from .summary import say, summarise

    # NumPy is about to be imported; its BLAS, of which nothing is used, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Daemon threads of the program may still be busy: wait less for the GIL that each of them holds.
    sys.setswitchinterval(1e-4)
    try:
        with progress("writing", quiet) as show:
            tap.write(progress=show)
        if not quiet:
            summarise(str(tap.path), wished)
    except FrametapError as error:
        say(f"frametap: {error}")
    except Exception as error:  # noqa: BLE001 - the summary is not worth a traceback after the program's own output
        say(f"frametap: no summary ({type(error).__name__}: {error}); the capture is {tap.path}")
    except KeyboardInterrupt:
        say(f"frametap: interrupted; see {tap.path} or {tap.path}.part")
    finally:
        keep_interrupted_status()
