"""Counts words of made-up texts in four threads, slowly enough in one place to be worth finding.

frametap run examples/word_count.py
frametap report word_count.ftap
"""

import random
import threading
from collections.abc import Iterator

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "while", "nobody", "is", "looking"]


def make_text(seed: int, n_words: int) -> str:
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


def words(text: str) -> Iterator[str]:
    for word in text.split():
        yield normalise(word)


def normalise(word: str) -> str:
    letters = ""
    for letter in word:  # the slow place: a call a letter
        letters += lower(letter)
    return letters


def lower(letter: str) -> str:
    return letter.lower()


class Counts:
    def __init__(self) -> None:
        self.by_word: dict[str, int] = {}
        self.lock = threading.Lock()

    def add(self, word: str) -> None:
        with self.lock:
            self.by_word[word] = self.by_word.get(word, 0) + 1

    def most_common(self, n: int) -> list[tuple[str, int]]:
        return sorted(self.by_word.items(), key=lambda item: (-item[1], item[0]))[:n]


def count_text(counts: Counts, seed: int) -> None:
    for word in words(make_text(seed, 2000)):
        counts.add(word)


def main() -> None:
    counts = Counts()
    threads = [threading.Thread(target=count_text, args=(counts, seed), name=f"text {seed}") for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for word, n in counts.most_common(3):
        print(f"{n:6} {word}")


if __name__ == "__main__":
    main()
