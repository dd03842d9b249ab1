"""The registry: formats by suffix, files that are whole or not there."""

import gzip
import io
import json
from pathlib import Path

import pytest
from export.traces import build, call

from frametap.errors import FrametapError, OptionError
from frametap.export import FORMATS, export, format_of

TRACE = build([[call("f", 0, 9, [call("g", 1, 2)])]])


@pytest.mark.parametrize(
    ("name", "format"),
    [("a.pftrace", "perfetto"), ("a.perfetto-trace", "perfetto"), ("a.json", "chrome"), ("A.JSON.GZ", "chrome"),
     ("a.collapsed.txt", "collapsed"), ("a.collapsed", "collapsed"), ("a.pstats", "pstats"), ("a.b.prof", "pstats")],
)  # fmt: skip
def test_suffix_decides_the_format(tmp_path: Path, name: str, format: str) -> None:
    export(TRACE, tmp_path / name)
    out = io.BytesIO()
    FORMATS[format][1](TRACE, out)
    data = (tmp_path / name).read_bytes()
    assert (gzip.decompress(data) if name.endswith("GZ") else data) == out.getvalue()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_unknown_suffix_or_format_is_refused_with_those_known(tmp_path: Path) -> None:
    for path, format in (("a.xyz", None), ("a.json", "xyz")):
        with pytest.raises(OptionError) as caught:
            export(TRACE, tmp_path / path, format)
        assert all(name in str(caught.value) for name in (*FORMATS, ".pftrace", ".json"))
    assert list(tmp_path.iterdir()) == []


def test_a_named_format_wins_over_the_suffix(tmp_path: Path) -> None:
    export(TRACE, tmp_path / "a.txt", "chrome")
    assert json.loads((tmp_path / "a.txt").read_text())["traceEvents"]
    assert format_of("a.json", "pstats") == "pstats"


def test_a_failed_export_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("old")
    broken = build([[call("f", 0, 9)]])
    broken.calls["site"][0] = 99
    with pytest.raises(FrametapError, match=r"calls.site refers to row 99"):
        export(broken, tmp_path / "a.json")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "old")]


def test_packed_json_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        export(TRACE, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_export_can_be_called_as_the_docs_say(tmp_path: Path) -> None:
    import frametap

    frametap.export(TRACE, tmp_path / "run.pftrace")
    assert (tmp_path / "run.pftrace").stat().st_size > 0
