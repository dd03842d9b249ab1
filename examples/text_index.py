"""Indexes the source of Python's standard library and answers queries: threads, generators, asyncio.

    frametap run examples/text_index.py
    frametap report text_index.ftap
    frametap export text_index.ftap text_index.pftrace      # open in https://ui.perfetto.dev

Threads read and tokenise files into an inverted index; then an asyncio front end answers many queries at
once, ranking documents by how rare their words are. One function is slower than it should be: find it.
"""

from __future__ import annotations

import asyncio
import math
import os
import queue
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

N_FILES = 40
MAX_CHARACTERS = 24_000
QUERIES = ["read file", "thread lock", "parse error", "event loop", "return value", "open socket"] * 8


def documents(folder: Path) -> Iterator[Path]:
    """The modules to index, in order."""
    yield from sorted(folder.glob("*.py"))[:N_FILES]


def words(text: str) -> Iterator[str]:
    """The words of a text, in order, repeated ones too."""
    word = ""
    for character in text:
        if character.isalpha():
            word += character
        elif word:
            yield normalise(word)
            word = ""
    if word:
        yield normalise(word)


def normalise(word: str) -> str:
    """Lower case, without a plural's s."""
    word = word.lower()
    return word[:-1] if word.endswith("s") and len(word) > 3 else word


class Index:
    """word -> {document: how often}; threads may add at the same time."""

    def __init__(self) -> None:
        self.postings: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.names: set[str] = set()
        self._lock = threading.Lock()

    def add(self, name: str, counts: dict[str, int]) -> None:
        with self._lock:
            self.names.add(name)
            for word, count in counts.items():
                self.postings[word][name] = count

    def rarity(self, word: str) -> float:
        """How much a word tells about a document that has it."""
        return math.log(len(self.names) / (1 + len(self.postings.get(word, ()))))

    def score(self, name: str, query: list[str]) -> float:
        # Slow on purpose: the rarity of a word does not depend on the document.
        return sum(self.postings[word][name] * self.rarity(word) for word in query if name in self.postings[word])

    def best(self, query: list[str], n: int = 3) -> list[str]:
        return sorted(self.names, key=lambda name: (-self.score(name, query), name))[:n]


def index_file(path: Path, index: Index) -> None:
    counts: defaultdict[str, int] = defaultdict(int)
    for word in words(path.read_text(encoding="utf-8", errors="replace")[:MAX_CHARACTERS]):
        counts[word] += 1
    index.add(path.name, counts)


def worker(todo: queue.SimpleQueue[Path | None], index: Index) -> None:
    while (path := todo.get()) is not None:
        index_file(path, index)


def build(folder: Path, n_threads: int = 4) -> Index:
    index = Index()
    todo: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=worker, args=(todo, index), name=f"indexer-{i}") for i in range(n_threads)]
    for thread in threads:
        thread.start()
    for path in documents(folder):
        todo.put(path)
    for _ in threads:
        todo.put(None)
    for thread in threads:
        thread.join()
    return index


async def answer(index: Index, query: str) -> list[str]:
    """One client's query; gives others a turn between its steps."""
    query_words = list(words(query))
    await asyncio.sleep(0)
    found = index.best(query_words)
    await asyncio.sleep(0)
    return found


async def serve(index: Index) -> dict[str, list[str]]:
    answers = await asyncio.gather(*(answer(index, query) for query in QUERIES))
    return dict(zip(QUERIES, answers, strict=True))


def main() -> int:
    index = build(Path(os.__file__).parent)
    for query, found in asyncio.run(serve(index)).items():
        print(f"{query:<14} {', '.join(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
