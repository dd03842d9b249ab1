"""The journal of tables is read as far as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from frametap.store.tables import Tables
from frametap.store.tables_journal import read_journal

FUNCTION = b'["function",1,"python","f","m","a.py",3,0]\n'


def journal(tmp_path: Path, text: bytes) -> tuple[Tables, list[str]]:
    path = tmp_path / "tables.jsonl"
    path.write_bytes(text)
    return read_journal(path)


def test_the_later_of_two_rows_wins(tmp_path: Path) -> None:
    tables, damage = journal(
        tmp_path, FUNCTION + FUNCTION.replace(b'"f"', b'"g"') + b'["name",1,"a"]\n["name",1,"b"]\n'
    )
    assert tables.functions["qualname"] == ["g"] and tables.names == {1: "b"} and damage == []


def test_a_threads_name_is_the_latest_and_its_start_the_first(tmp_path: Path) -> None:
    tables, _ = journal(tmp_path, b'["thread",1,7,"a",10]\n["thread_end",1,99]\n["thread",1,7,"b",20]\n')
    assert tables.threads == {1: (1, 7, "b", 10, 99)}


def test_a_thread_end_may_come_first(tmp_path: Path) -> None:
    tables, _ = journal(tmp_path, b'["thread_end",1,99]\n["thread",1,7,"a",10]\n')
    assert tables.threads[1].end_tick == 99


@pytest.mark.parametrize("cut", range(1, len(FUNCTION) - 1))
def test_a_cut_last_line_is_one_missing_description(tmp_path: Path, cut: int) -> None:
    tables, damage = journal(tmp_path, FUNCTION + FUNCTION.replace(b",1,", b",2,")[:cut])
    assert tables.functions["id"].tolist() == [1]
    assert damage == ["tables.jsonl: the last line is cut; one description is missing"]


def test_a_last_line_without_its_newline_is_whole(tmp_path: Path) -> None:
    tables, damage = journal(tmp_path, FUNCTION.rstrip())
    assert tables.functions["id"].tolist() == [1] and damage == []


def test_room_that_was_not_used_is_no_damage(tmp_path: Path) -> None:
    tables, damage = journal(tmp_path, FUNCTION + b"\0" * 5000)
    assert tables.functions["id"].tolist() == [1] and damage == []


@pytest.mark.parametrize(
    "line",
    [
        b"garbage", b"\xff\xfe\x00", b"{}", b"[]", b"[1]", b"17", b'["function"]', b"[" * 100_000,
        b'["function",0,"python","f","m","a.py",3,0]', b'["function",4294967296,"python","f","m","a.py",3,0]',
        b'["function",1.0,"python","f","m","a.py",3,0]', b'["function",true,"python","f","m","a.py",3,0]',
        b'["function",1,"python",null,"m","a.py",3,0]', b'["site",16,1,0,2147483648,0]', b'["name",-1,"x"]',
        b'["thread",1,' + b"9" * 5000 + b',"t",1]', b'["clock",1,2]', b'["loss","k",-1,0,0,0]',
    ],
    ids=lambda line: line[:24].decode("latin-1"),
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_counted_and_left_out(tmp_path: Path, line: bytes) -> None:
    tables, damage = journal(tmp_path, line + b"\n" + FUNCTION)
    assert tables.functions["id"].tolist() == [1]
    assert damage == ["tables.jsonl: 1 lines could not be understood; names are missing"]


def test_rows_of_a_newer_recorder_are_passed_over(tmp_path: Path) -> None:
    tables, damage = journal(tmp_path, b'["colour",1]\n' + FUNCTION.replace(b",0]", b',0,"more"]'))
    assert tables.functions["id"].tolist() == [1] and damage == []


def test_names_may_hold_anything(tmp_path: Path) -> None:
    tables, damage = journal(tmp_path, b'["name",1,"\\udcff\\u0000\\n\\ud83d\\ude00"]\n')
    assert tables.names == {1: "\udcff\0\n\U0001f600"} and damage == []
    assert Tables.from_json(tables.to_json()).names == tables.names


def test_a_missing_journal_is_damage(tmp_path: Path) -> None:
    _, damage = read_journal(tmp_path / "tables.jsonl")
    assert damage == ["tables.jsonl: No such file or directory; names are missing"]
