"""What ``frametap run`` records, writes and says."""

from __future__ import annotations

import json
import os

import pytest

import frametap
from frametap.store import recover

WORK = "def f(): pass\nfor _ in range(1000): f()\n"


def calls_of(path, name: str = "f") -> int:
    from frametap.analyse import functions

    with frametap.open(path) as capture:
        rows = [row for row in functions(capture.trace()) if row["name"] == name]
    return sum(row["calls"] for row in rows)


def test_capture_is_named_after_the_program(frametap_command, tmp_path) -> None:
    (tmp_path / "job.py").write_text(WORK)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.tool").write_text(WORK)
    for arguments, name in (
        (("job.py",), "job.ftap"),
        (("-m", "job"), "job.ftap"),
        (("sub/other.tool",), "other.tool.ftap"),
        (("-c", WORK), "command.ftap"),
        (("-o", "given.ftap", "--", "job.py"), "given.ftap"),
    ):
        process = frametap_command("run", *arguments)
        assert process.returncode == 0, process.stderr
        assert calls_of(tmp_path / name) == 1000
        (tmp_path / name).unlink()
    assert sorted(os.listdir(tmp_path)) == ["job.py", "sub"]


def test_summary_goes_to_stderr_and_tells_how_to_go_on(frametap_command, tmp_path) -> None:
    process = frametap_command("run", "-c", WORK + "print('out')")
    assert process.stdout == b"out\n"
    summary = process.stderr.decode()
    assert summary.startswith("frametap: 1,0")
    for text in ("command.ftap (", "1,000 ", "  f  (<string>:1)", "--c-calls", "loss", "frametap report command.ftap"):
        assert text in summary
    assert "self time includes" not in frametap_command("run", "--c-calls", "-c", WORK).stderr.decode()


def test_quiet_run_says_nothing(frametap_command) -> None:
    assert frametap_command("run", "-q", "-c", WORK).stderr == b""


def test_threads_handlers_and_exceptions_to_the_very_end_are_recorded(frametap_command, tmp_path) -> None:
    (tmp_path / "late.py").write_text(
        "import atexit, threading\n"
        "def at_exit(): in_handler()\n"
        "def in_handler(): pass\n"
        "def in_thread(): gate.wait(); after_main()\n"
        "def after_main(): pass\n"
        "gate = threading.Event()\n"
        "atexit.register(at_exit)\n"
        "threading.Thread(target=in_thread).start()\n"
        "threading.Timer(0.01, gate.set).start()\n"
        "1 / 0\n"
    )
    assert frametap_command("run", "late.py").returncode == 1
    for name in ("at_exit", "in_handler", "in_thread", "after_main"):
        assert calls_of(tmp_path / "late.ftap", name) == 1, name


def test_nothing_of_frametaps_own_is_in_the_trace(frametap_command, tmp_path) -> None:
    frametap_command("run", "-c", WORK)
    with frametap.open(tmp_path / "command.ftap") as capture:
        functions = capture.trace().functions
    own = os.path.dirname(frametap.__file__)
    assert [file for file in functions["file"] if file.startswith(own)] == []
    for library in ("rich", "numpy", "argparse", "json", "dataclasses"):  # imported before or after, never during
        assert [f for f in functions["file"] if f"/{library}" in f] == []


@pytest.mark.parametrize("death", ["os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "os._exit(1)", "os.abort()"])
def test_killed_program_leaves_what_recover_reads(frametap_command, tmp_path, death) -> None:
    frametap_command("run", "-c", f"import os\n{WORK}\n{death}")
    assert not (tmp_path / "command.ftap").exists()
    process = frametap_command("report", "command.ftap")
    assert b"frametap recover" in process.stderr
    recover(tmp_path / "command.ftap.part")
    assert calls_of(tmp_path / "command.ftap") == 1000


def test_run_beside_a_killed_ones_remains_takes_another_name_and_says_so(frametap_command, tmp_path) -> None:
    frametap_command("run", "-c", "import os; os._exit(1)")
    summary = frametap_command("run", "-c", WORK).stderr.decode()
    assert "command.2.ftap (" in summary
    assert "command.ftap.part is there" in summary
    assert calls_of(tmp_path / "command.2.ftap") == 1000


def test_output_that_cannot_be_written_is_told_before_the_program_starts(frametap_command) -> None:
    process = frametap_command("run", "-o", "nowhere/x.ftap", "-c", "print('ran')")
    assert (process.returncode, process.stdout) == (2, b"")
    assert process.stderr.startswith(b"frametap: ")
    assert process.stderr.count(b"\n") == 1


def test_program_that_never_ran_leaves_no_capture(frametap_command, tmp_path) -> None:
    (tmp_path / "bad.py").write_text("x = (")
    for arguments in (("bad.py",), ("-m", "does_not_exist"), ("nothing.py",)):
        assert frametap_command("run", *arguments).returncode != 0
    assert os.listdir(tmp_path) == ["bad.py"]


def test_programs_own_tap_under_run_is_refused_by_name(frametap_command) -> None:
    process = frametap_command("run", "-q", "-c", "import frametap\nwith frametap.trace('x.ftap'): pass")
    assert process.returncode == 1
    assert b"StateError: already recording to " in process.stderr


def test_annotations_of_the_program_are_in_the_trace(frametap_command, tmp_path) -> None:
    frametap_command(
        "run", "-c", "import frametap\nwith frametap.span('s'): frametap.mark('m'); frametap.counter('c', 2.5)"
    )
    with frametap.open(tmp_path / "command.ftap") as capture:
        marks = capture.trace().marks
    assert sorted(zip(marks["kind"], marks["name"], strict=True)) == [("counter", "c"), ("instant", "m"), ("span", "s")]


def test_forked_child_leaves_the_capture_to_its_parent(frametap_command, tmp_path) -> None:
    process = frametap_command(
        "run", "-c", f"import os, sys\npid = os.fork()\n{WORK}\nif pid: os.waitpid(pid, 0)\nelse: sys.exit(3)"
    )
    assert process.returncode == 0
    assert process.stderr.count(b"frametap report") == 1  # one summary
    assert calls_of(tmp_path / "command.ftap") >= 1000


def test_disk_that_fills_up_leaves_status_and_recording(frametap_command, tmp_path) -> None:
    # A folder in the capture's place when it is to be written: the rename fails as a full disk would.
    process = frametap_command("run", "-c", "import os; os.mkdir('command.ftap'); raise SystemExit(4)")
    assert process.returncode == 4
    assert b"frametap recover" in process.stderr
    assert process.stderr.count(b"\n") == 1
    assert (tmp_path / "command.ftap.part").is_dir()


def test_program_may_leave_its_folder(frametap_command, tmp_path) -> None:
    (tmp_path / "gone").mkdir()
    process = frametap_command("run", "-c", f"import os; os.chdir('gone'); os.rmdir(os.getcwd())\n{WORK}")
    assert process.returncode == 0
    assert calls_of(tmp_path / "command.ftap") == 1000
    assert b"frametap report" in process.stderr


def test_json_report_of_a_run(frametap_command, tmp_path) -> None:
    frametap_command("run", "-c", WORK)
    report = json.loads(frametap_command("report", "command.ftap", "--json").stdout)
    assert {f["name"]: f["calls"] for f in report["functions"]}["f"] == 1000
    assert ("<module>", 2, "f", 1000) in [(s["caller"], s["line"], s["name"], s["calls"]) for s in report["call_sites"]]
