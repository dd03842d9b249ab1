"""report, info, dump, export and recover: what they print, and how they fail."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from frametap.cli import about, main, report, run, tables
from frametap.store import pack

from .conftest import SOURCE


@pytest.fixture
def spool(spool_writer, tmp_path) -> Path:
    """main [0, 100) calls work twice, 30 and 20 ns; a worker calls work for 5 ns. Nothing is lost."""
    writer = spool_writer.SpoolWriter(tmp_path, c_calls=False)
    process = writer.process(working_directory="/w")
    top = process.site(process.function("main", "/w/app.py", 3))
    work = process.site(process.function("Worker.work", "/w/app.py", 9), 1, 4)
    odd = process.site(process.function("na\x1bme\n\udc80é", "/usr/lib/python3.13/odd.py", 1), 2, 12)
    thread = process.thread()
    thread.arm().enter(top, dt=10).enter(work, dt=10).exit_return(30).enter(work, dt=5).exit_return(20)
    thread.exit_return(35).disarm()
    process.thread(name="worker").arm().enter(work, dt=10).enter(odd, dt=1).exit_raise(2).exit_return(2).disarm()
    return writer.write()


@pytest.fixture
def capture(spool, tmp_path) -> str:
    path = tmp_path / "run.ftap"
    pack(spool, path)
    return str(path)


@pytest.fixture
def command(capsys):
    """Run a command in this process: (status, stdout, stderr)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main.main(list(arguments))
        return status, *capsys.readouterr()

    return call


def test_json_report_has_all_numbers(command, capture) -> None:
    status, out, _ = command("report", capture, "--json")
    report = json.loads(out)
    assert status == 0
    assert list(report) == ["functions", "call_sites", "threads", "losses"]
    functions = {f["name"]: f for f in report["functions"]}
    assert functions["main"] == {
        "name": "main", "module": "app", "file": "/w/app.py", "line": 3, "kind": "python", "calls": 1,
        "self_ns": 50, "total_ns": 100, "mean_ns": 100, "min_ns": 100, "max_ns": 100,
        "raised": 0, "unfinished": 0, "instances": 0,
    }  # fmt: skip
    assert functions["Worker.work"]["calls"] == 3
    assert functions["na\x1bme\n\udc80é"]["raised"] == 1
    sites = {(s["caller"], s["line"], s["name"]): s["calls"] for s in report["call_sites"]}
    assert sites == {("", -1, "main"): 1, ("main", 4, "Worker.work"): 3, ("Worker.work", 12, "na\x1bme\n\udc80é"): 1}
    assert [(t["name"], t["calls"], t["deepest"]) for t in report["threads"]] == [
        ("MainThread", 3, 2),
        ("worker", 2, 2),
    ]
    assert report["losses"] == []


def test_json_report_by_thread(command, capture) -> None:
    report = json.loads(command("report", capture, "--json", "--by-thread")[1])
    rows = {(f["name"], f["thread"]): f["calls"] for f in report["functions"]}
    assert rows["Worker.work", "MainThread"] == 2
    assert rows["Worker.work", "worker"] == 1


@pytest.mark.parametrize(
    ("sort", "first"),
    [("self", "Worker.work"), ("total", "main"), ("calls", "Worker.work"), ("mean", "main"), ("max", "main")],
)
def test_report_is_sorted_and_limited(command, capture, sort, first) -> None:
    report = json.loads(command("report", capture, "--json", "--sort", sort, "--limit", "1")[1])
    assert [f["name"] for f in report["functions"]] == [first]
    names = [f["name"] for f in json.loads(command("report", capture, "--json", "--sort", "name")[1])["functions"]]
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("main", ["main"]),
        ("*work", ["Worker.work"]),
        ("app.W*", ["Worker.work"]),
        ("/w/*", ["Worker.work", "main"]),
        ("/^m|odd/", ["main", "na\x1bme\n\udc80é"]),
        ("nothing", []),
    ],
)
def test_report_is_filtered_by_pattern_or_expression(command, capture, pattern, names) -> None:
    report = json.loads(command("report", capture, "--json", "--filter", pattern)[1])
    assert sorted(f["name"] for f in report["functions"]) == names


def test_text_report_shows_tables_and_says_what_it_does_not_know(command, capture) -> None:
    status, out, _ = command("report", capture)
    assert status == 0
    assert re.search(r"^ +1 +50 ns +100 ns +100 ns +100 ns  main  \(app\.py:3\)$", out, re.MULTILINE)
    assert re.search(r"^ +3 .*  main  \(app\.py:4\) +Worker\.work$", out, re.MULTILINE)
    assert r"na\x1bme\n\udc80é  (odd.py:1)" in out
    assert "self time includes C functions" in out
    assert out.endswith("losses:\n  no losses\n")


def test_report_of_nothing_that_matches_is_empty_tables(command, capture) -> None:
    status, out, _ = command("report", capture, "--filter", "nothing")
    assert status == 0
    assert "functions, by self\ncalls  self  total  mean  max  function\n" in out


def test_losses_and_killed_processes_are_told(command, spool_writer, tmp_path) -> None:
    writer = spool_writer.SpoolWriter(tmp_path, "killed")
    process = writer.process(pid=7).loss("deep_stack", 2).kill()
    process.thread().arm().call(process.site(process.function("f")))
    status, out, _ = command("report", str(writer.write()))  # read in place
    assert status == 0
    assert "process 7 did not end its recording" in out
    assert "deep_stack 2: one time that recording paused" in out
    assert "no losses" not in out


def test_info_describes_and_checks(command, capture) -> None:
    status, out, _ = command("info", capture, "--check")
    assert status == 0
    for text in ("5 calls, 2 threads, 1 process", "engine monitoring, without C calls", "python app.py", "no losses"):
        assert text in out
    assert out.endswith("check: nothing is wrong\n")


def test_info_check_fails_where_a_trace_is_wrong(command, capture, monkeypatch) -> None:
    monkeypatch.setattr("frametap.table.check.validate", lambda trace: ["call 3 crosses call 2"])
    status, out, _ = command("info", capture, "--check")
    assert status == 1
    assert "check: 1 problem\n  call 3 crosses call 2" in out


def test_dump_gives_every_column_of_a_table(command, capture) -> None:
    lines = command("dump", capture)[1].splitlines()
    assert lines[0].split("\t")[-1] == "name"
    assert [line.split("\t")[-1] for line in lines[1:]] == [
        "main", "Worker.work", "Worker.work", "Worker.work", r"na\x1bme\n\udc80é",
    ]  # fmt: skip
    assert len({line.count("\t") for line in lines}) == 1
    assert command("dump", capture, "threads")[1].count("\n") == 3


def test_export_takes_its_format_from_the_suffix(command, capture, tmp_path) -> None:
    status, out, _ = command("export", capture, str(tmp_path / "x.json"))
    assert (status, "chrome" in out) == (0, True)
    assert json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    status, _, error = command("export", capture, str(tmp_path / "x.what"))
    assert status == 2
    assert error.startswith("frametap: ")
    assert not (tmp_path / "x.what").exists()


def test_recover_makes_the_capture(command, spool, tmp_path) -> None:
    status, out, _ = command("recover", str(spool))
    assert (status, out) == (0, f"recovered {tmp_path / 'run.ftap'}\n")
    assert command("info", str(tmp_path / "run.ftap"))[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "{tmp}/nothing.ftap"),
        ("info", "{tmp}/text.ftap"),
        ("recover", "{tmp}"),
        ("export", "{capture}", "{tmp}/no/folder.json"),
        ("report", "{capture}", "--filter", "/(/"),
        ("report", "{capture}", "--limit", "-1"),
        ("nonsense",),
        ("run",),
        ("run", "-o"),
        ("run", "--nonsense", "a.py"),
        ("run", "--engine", "fast", "a.py"),
        ("run", "-m"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(command, capture, tmp_path, arguments) -> None:
    (tmp_path / "text.ftap").write_text("hello")
    status, out, error = command(*(a.format(tmp=tmp_path, capture=capture) for a in arguments))
    assert (status, out) == (2, "")
    assert re.fullmatch(r"frametap: .+\n", error)


def test_capture_that_was_not_packed_is_pointed_at(command, spool, tmp_path) -> None:
    status, _, error = command("report", str(tmp_path / "run.ftap"))
    assert status == 2
    assert f"frametap recover {spool}" in error


def test_help_and_version(command) -> None:
    assert command("--version")[:2] == (0, "frametap 0.1.0\n")
    status, out, _ = command("--help")
    assert status == 0
    assert all(f"\n  {name} " in out for name in main.COMMANDS)
    assert command("run", "--help")[:2] == (0, run.HELP)
    assert command()[0] == 2
    for name in set(main.COMMANDS) - {"run"}:
        with pytest.raises(SystemExit) as left:
            command(name, "--help")
        assert left.value.code == 0


def test_reader_that_leaves_early_is_no_error(frametap_command, spool_writer, tmp_path) -> None:
    writer = spool_writer.SpoolWriter(tmp_path, "long")
    process = writer.process(chunk_bytes=1 << 20)
    thread, site = process.thread().arm(), process.site(process.function("f"))
    for _ in range(20_000):
        thread.call(site)
    dump = [sys.executable, "-m", "frametap", "dump", str(writer.write())]
    with subprocess.Popen(
        dump, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(SOURCE)}
    ) as process:
        assert process.stdout.readline().startswith(b"site\t")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def on_terminal(columns: int, command: list[str], **variables: str) -> str:
    """What the command shows on a terminal of that width."""
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no pseudo-terminals here")
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    environment |= {"PYTHONPATH": str(SOURCE), "TERM": "xterm-256color", "COLUMNS": str(columns)} | variables
    with subprocess.Popen(
        [sys.executable, "-m", "frametap", *command], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        out = b""
        try:
            while part := os.read(master, 65536):
                out += part
        except OSError:  # how Linux says that the terminal's other side is closed
            pass
    os.close(master)
    assert process.returncode == 0, out
    return out.decode()


def test_terminal_gets_tables_that_fit_it(capture) -> None:
    for columns in (50, 200):
        shown = on_terminal(columns, ["report", capture])
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        table = plain.partition("functions, by self")[2].partition("self time includes")[0]
        assert "\x1b[" in shown
        assert max(map(len, table.splitlines())) <= columns
        assert "".join(table.split()).count("Worker.work") >= 2  # folded, not cut


def test_no_color_is_respected(capture) -> None:
    shown = on_terminal(120, ["report", capture], NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)
    assert "na\x1bme" not in shown


def test_plain_table_is_aligned_and_not_padded() -> None:
    text = tables.plain((("calls", True), ("name", False)), [("1", "f"), ("1,000", "g long")])
    assert text == "calls  name\n    1  f\n1,000  g long"


def test_filter_is_case_sensitive() -> None:
    assert report.matcher("F*")("Foo")
    assert not report.matcher("F*")("foo")


def test_no_losses_is_said_only_where_there_are_none(command, spool_writer, tmp_path) -> None:
    import frametap

    writer = spool_writer.SpoolWriter(tmp_path, "lossy")
    process = writer.process().loss("forked", 3)
    process.thread().arm().call(process.site(process.function("f"))).disarm()
    with frametap.open(writer.write()) as opened:
        trace = opened.trace()
    assert about.missing_in_short(trace) == ["losses: forked 3; explained by frametap info"]
    assert about.missing(trace)[0].startswith("forked 3: one fork")
