"""Replay, slow and obvious: the twin of core/replay/replayer.cpp, written from core/store/format.h.

In and out as `frametap._core.Replayer`, with lists for arrays. Nothing is shared with the core: a
call is a dict, an open stack is a list of dicts, ticks become nanoseconds in integers of any size.
"""

from __future__ import annotations

from typing import Any

Call = dict[str, Any]
KNOWN, C, HIDDEN = 1, 2, 4
RETURNED, RAISED, YIELDED, UNFINISHED = range(4)
BEGUN_BEFORE, START_GUESSED, END_GUESSED, CUT, RESUME, FIRST_RESUME = 1, 2, 4, 8, 16, 32
RESUME_BIT = 1 << 31
DROPPED_EVENTS, UNMATCHED_EXIT, MISSED_ENTRY, GONE_UNSEEN = 0, 3, 4, 5
FOUND_UNMATCHED_EXIT, FOUND_GONE_UNSEEN, FOUND_REPAIRED_EXIT = 32, 33, 34
FOUND_CLOCK_BACKWARDS, FOUND_DAMAGE, FOUND_UNKNOWN_SITE = 35, 36, 37
MAX_NS = 1 << 62
COLUMNS = ("site", "start_ns", "duration_ns", "self_ns", "parent", "depth", "outcome", "flags")


class Clock:
    def __init__(self, ticks: list[int], ns: list[int], ns_per_tick: float) -> None:
        self.knots: list[tuple[int, int]] = []
        for tick, value in zip(ticks, ns, strict=False):
            value = max(0, min(MAX_NS, value))
            if not self.knots or (tick > self.knots[-1][0] and value >= self.knots[-1][1]):
                self.knots.append((tick, value))
        self.knots = self.knots or [(0, 0)]
        self.last_rate = min(int(ns_per_tick * 2**48) if ns_per_tick > 0 else 0, (1 << 63) - 1)

    def to_ns(self, tick: int) -> int:
        at = max((i for i, (t, _) in enumerate(self.knots) if t <= tick), default=0)
        t0, ns0 = self.knots[at]
        if at + 1 < len(self.knots):
            t1, most = self.knots[at + 1]
            rate = min(((most - ns0) << 48) // (t1 - t0), (1 << 63) - 1)
        else:
            most, rate = MAX_NS, self.last_rate
        return min(most, ns0 + (max(0, tick - t0) * rate >> 48))


class Replayer:
    def __init__(self, site_classes: list[int], clock_ticks: list[int], clock_ns: list[int], ns_per_tick: float):
        self.site_classes = site_classes
        self.clock = Clock(clock_ticks, clock_ns, ns_per_tick)
        self.tick = self.now_tick = self.clock.knots[0][0]
        self.first_ns = -1
        self.calls: dict[int, list[Call]] = {0: []}  # by stack id
        self.open: dict[int, list[Call]] = {0: []}
        self.stack = 0
        self.found_losses: dict[int, tuple[int, int, int]] = {}
        self.open_gaps: set[int] = set()
        self.mark_rows: list[tuple[int, ...]] = []
        self.resume_rows: list[tuple[int, ...]] = []

    @property
    def last_ns(self) -> int:
        return self.clock.to_ns(self.now_tick)

    def lose(self, slot: int, count: int = 1) -> None:
        if count:
            n, first, _ = self.found_losses.get(slot, (0, self.last_ns, 0))
            self.found_losses[slot] = (min(n + count, 1 << 62), first, self.last_ns)

    def set_tick(self, tick: int) -> None:
        if tick < self.now_tick:
            self.lose(FOUND_CLOCK_BACKWARDS)
        self.advance(tick)

    def advance(self, tick: int) -> None:
        self.tick = tick
        self.now_tick = max(self.now_tick, tick)

    # -- calls ----------------------------------------------------------------------------------

    def enter(self, id_: int, flags: int = 0, payload: int | None = None) -> None:
        site = id_ & (RESUME_BIT - 1)
        klass = self.site_classes[site] if site < len(self.site_classes) else 0
        around = [c for c in self.open[self.stack] if not c["class"] & HIDDEN]
        call: Call = {"class": klass, "site": site, "start_ns": self.last_ns, "inside": 0, "flags": flags}
        call["up"] = around[-1] if around else None
        call["depth"] = len(around)
        self.open[self.stack].append(call)
        if klass & HIDDEN:
            return
        if not klass & KNOWN:
            self.lose(FOUND_UNKNOWN_SITE)
        rows = self.calls[self.stack]
        call["row"] = len(rows)
        call["parent"] = call["up"]["row"] if call["up"] else -1
        rows.append(call)
        if id_ & RESUME_BIT:
            call["flags"] |= RESUME
            if payload is not None:
                call["flags"] |= FIRST_RESUME if payload & 1 else 0
                track = list(self.calls).index(self.stack)
                self.resume_rows.append((payload >> 1, payload & 1, self.last_ns, site, track, call["row"]))

    def close(self, stack: int, outcome: int, flags: int = 0) -> None:
        call = self.open[stack].pop()
        if call["class"] & HIDDEN:
            return
        call["duration_ns"] = self.last_ns - call["start_ns"]
        call["self_ns"] = call["duration_ns"] - call["inside"]
        call["outcome"] = outcome
        call["flags"] |= flags
        if call["up"]:
            call["up"]["inside"] += call["duration_ns"]

    def is_loss_unless_exit_seen(self, stack: int) -> bool:
        call = self.open[stack][-1]
        return not call["class"] & HIDDEN and not call["flags"] & BEGUN_BEFORE

    def close_stack(self, stack: int, flags: int, found: int | None = None) -> None:
        while self.open[stack]:
            if found is not None and self.is_loss_unless_exit_seen(stack):
                self.lose(found)
            self.close(stack, UNFINISHED, flags)

    def close_all(self, flags: int, found: int | None = None) -> None:
        for stack in self.open:
            self.close_stack(stack, flags, found)

    def exit_python(self, outcome: int) -> None:
        open_calls = self.open[self.stack]
        if all(c["class"] & C for c in open_calls):
            return self.lose(FOUND_UNMATCHED_EXIT)
        while open_calls[-1]["class"] & C:
            if not open_calls[-1]["class"] & HIDDEN:
                self.lose(FOUND_REPAIRED_EXIT)
            self.close(self.stack, UNFINISHED, END_GUESSED)
        self.close(self.stack, outcome)

    def exit_c(self, outcome: int) -> None:
        open_calls = self.open[self.stack]
        if not open_calls or (open_calls[-1]["class"] & KNOWN and not open_calls[-1]["class"] & C):
            return self.lose(FOUND_UNMATCHED_EXIT)
        self.close(self.stack, outcome)

    # -- words ----------------------------------------------------------------------------------

    def feed(self, words: list[int], segment_tick: int) -> None:
        if not words:
            return
        self.set_tick(segment_tick)
        if self.first_ns < 0:
            self.first_ns = self.last_ns
        words = list(words)
        while words:
            word = words.pop(0)
            id_ = word & 0xFFFFFFFF
            if id_ == 0:
                if word or any(words):
                    self.lose(FOUND_DAMAGE)
                return
            if self.tick + (word >> 32) < 1 << 64:
                self.advance(self.tick + (word >> 32))
            else:
                self.lose(FOUND_CLOCK_BACKWARDS)
            if id_ & RESUME_BIT:
                if not words:
                    self.lose(FOUND_DAMAGE)
                self.enter(id_, 0, words.pop(0) if words else None)
            elif id_ >= 16:
                self.enter(id_)
            elif id_ in (1, 2, 3):
                self.exit_python({1: RETURNED, 2: RAISED, 3: YIELDED}[id_])
            elif id_ in (4, 5):
                self.exit_c({4: RETURNED, 5: RAISED}[id_])
            elif id_ == 6 and words:
                self.set_tick(words.pop(0))
            elif id_ == 7 and words:
                head = words.pop(0)
                arg, n, kind = head >> 16, head >> 8 & 255, head & 255
                if n > len(words):
                    self.lose(FOUND_DAMAGE)
                    return
                self.record(kind, arg, [words.pop(0) for _ in range(n)])
            else:
                self.lose(FOUND_DAMAGE)

    def record(self, kind: int, arg: int, words: list[int]) -> None:
        if kind in (1, 2):  # arm, disarm
            self.close_all(CUT)
        elif kind in (3, 4):  # before, missed
            if kind == 4:
                self.lose(MISSED_ENTRY)
            if arg >= 1 << 32:
                return self.lose(FOUND_DAMAGE)
            if arg & RESUME_BIT and not words:
                self.lose(FOUND_DAMAGE)
            self.enter(arg, BEGUN_BEFORE if kind == 3 else START_GUESSED, words[0] if words else None)
        elif kind == 5:  # gone
            n = min(arg, len(self.open[self.stack]))
            if arg > n:
                self.lose(FOUND_UNMATCHED_EXIT)
            for _ in range(n):
                if self.is_loss_unless_exit_seen(self.stack):
                    self.lose(GONE_UNSEEN)
                self.close(self.stack, UNFINISHED, END_GUESSED)
        elif kind == 6:  # switch
            if arg >= 1 << 32:
                return self.lose(FOUND_DAMAGE)
            self.stack = arg
            self.calls.setdefault(arg, [])
            self.open.setdefault(arg, [])
        elif kind == 7:  # stack end
            if arg in self.open:
                self.close_stack(arg, END_GUESSED, FOUND_GONE_UNSEEN)
        elif kind == 8:  # thread end
            self.close_all(END_GUESSED, FOUND_GONE_UNSEEN)
        elif kind in (9, 10, 12) and words:
            self.mark({9: 0, 10: 1, 12: 3}[kind], 0 if kind == 10 else arg, words[0])
        elif kind == 11:
            self.mark(2, arg, 0)
        elif kind in (13, 14) and arg < 32:  # gap begins, ends
            if kind == 13 or arg not in self.found_losses:
                self.lose(arg)
            n, first, _ = self.found_losses[arg]
            self.found_losses[arg] = (n, first, self.last_ns)
            (self.open_gaps.add if kind == 13 else self.open_gaps.discard)(arg)
        elif kind == 15:
            self.lose(DROPPED_EVENTS, arg)
        elif kind == 16:
            self.lose(UNMATCHED_EXIT, arg)
        else:
            self.lose(FOUND_DAMAGE)

    def mark(self, kind: int, name: int, value: int) -> None:
        self.mark_rows.append((kind, list(self.calls).index(self.stack), self.last_ns, name, value))

    def missing(self, tick: int) -> None:
        self.set_tick(tick)
        self.close_all(END_GUESSED, FOUND_GONE_UNSEEN)

    # -- out ------------------------------------------------------------------------------------

    def finish(self) -> None:
        self.close_all(CUT)
        for slot in self.open_gaps:
            n, first, _ = self.found_losses[slot]
            self.found_losses[slot] = (n, first, self.last_ns)
        self.open_gaps.clear()

    def tracks(self) -> list[tuple[int, dict[str, list[int]]]]:
        self.finish()
        return [(stack, {name: [c[name] for c in rows] for name in COLUMNS}) for stack, rows in self.calls.items()]

    def resumes(self) -> dict[str, list[int]]:
        return _columns(("address", "is_first", "time_ns", "site", "track", "row"), self.resume_rows)

    def marks(self) -> dict[str, list[int]]:
        return _columns(("kind", "track", "time_ns", "name", "value"), self.mark_rows)

    def losses(self) -> dict[int, tuple[int, int, int]]:
        return dict(sorted(self.found_losses.items()))


def _columns(names: tuple[str, ...], rows: list[tuple[int, ...]]) -> dict[str, list[int]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def instances(resumes: list[tuple[int, int, bool, int]]) -> list[int]:
    """Instance of each resume (time_ns, address, is_first, function), given in the order of threads.

    In time order; a new instance at the first resume of one, at an address that was not seen, or
    where another function runs at that address.
    """
    at_address: dict[int, tuple[int, int]] = {}
    out = [0] * len(resumes)
    n = 0
    for i in sorted(range(len(resumes)), key=lambda i: resumes[i][0]):
        _, address, is_first, function = resumes[i]
        if is_first or at_address.get(address, (None, 0))[0] != function:
            n += 1
            at_address[address] = (function, n)
        out[i] = at_address[address][1]
    return out
