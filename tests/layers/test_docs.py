"""The documentation's paths exist, decisions are numbered and listed, and nothing is told twice."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    p for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks/README.md"] if p.exists()
]
FOLDERS = ("core/", "src/", "tests/", "docs/", "benchmarks/", "examples/", "tools/", ".ci/")

page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def prose(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


@page
def test_paths_named_in_the_text_exist(page):
    for path in re.findall(r"`([\w./-]+)`", prose(page)):
        if path.startswith(FOLDERS):
            assert (ROOT / path).exists(), path


@page
def test_headings_are_told_once(page):
    headings = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    assert [h for h, n in Counter(headings).items() if n > 1] == []


def test_no_paragraph_stands_on_two_pages():
    seen: dict[str, Path] = {}
    for path in PAGES:
        for paragraph in re.split(r"\n\s*\n", prose(path)):
            text = " ".join(paragraph.split())
            if len(text) > 150 and not text.startswith("|"):
                assert text not in seen, f"on {path} and {seen[text]}: {text[:80]}"
                seen[text] = path


def test_decisions_are_numbered_without_gaps_and_listed():
    folder = ROOT / "docs" / "decisions"
    notes = sorted(p.name for p in folder.glob("[0-9]*.md"))
    assert [n[:4] for n in notes] == [f"{i:04}" for i in range(1, len(notes) + 1)]
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [n for n in notes if f"]({n})" not in index] == []
