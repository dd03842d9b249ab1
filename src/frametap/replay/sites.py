"""Functions and call sites of all processes, in one numbering.

In: each process's descriptions, as stored. Out: the `functions` and `sites` tables, and per process
the core's site classes and the way from site id to row of `sites`.
Invariant: frametap's own functions are in no table; a site that is not described gets a row when a
call needs it, named ``<unknown site N>``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _core
from ..table import Table
from .threads import Array

if TYPE_CHECKING:
    from ..store import ProcessRecord

_INTERNAL = 1  # flag of a function: frametap's own
SITE_FLAG_HIDDEN = 2  # docs/format.md, tables.jsonl
_NONE = -1
_MAX_NAMED_UNKNOWN = 1000  # a damaged capture cannot make a table as long as its events


@dataclass
class ProcessSites:
    """One process's sites.

    Attributes
    ----------
    classes : array of uint8
        ``SITE_*`` bits by site id, as the core wants them.
    rows : array of int64
        Row of the sites table by site id; -1 where it is not described or hidden.
    """

    classes: Array
    rows: Array


def _ids_to_positions(ids: Array) -> Array:
    """Position by id, -1 for none; ids far beyond the number of rows are damage, not ids."""
    limit = 65536 + 16 * len(ids)
    position = np.arange(len(ids))[(ids >= 0) & (ids < limit)]
    by_id = np.full(int(ids[position].max(initial=-1)) + 1, _NONE, dtype=np.int64)
    by_id[ids[position]] = position
    return by_id


def lookup(values: Array, ids: Array) -> Array:
    """``values[ids]``, -1 where there is no such index."""
    inside = ids < len(values)  # ids are not negative
    if inside.all():
        return values[ids]
    out = np.full(len(ids), _NONE, dtype=np.int64)
    out[inside] = values[ids[inside]]
    return out


@dataclass
class SiteTables:
    """The growing `functions` and `sites` tables."""

    _functions: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("name", "module", "file", "line", "kind", "process")}
    )
    _sites: dict[str, list[Array]] = field(
        default_factory=lambda: {name: [] for name in ("function", "caller", "line")}
    )
    n_sites: int = 0

    def add_process(self, process: int, record: ProcessRecord) -> ProcessSites:
        """Take over what a process described; `process` is its row."""
        functions, sites = record.functions, record.sites
        f_ids = np.asarray(functions["id"], dtype=np.int64)
        f_kinds = np.asarray(functions["kind"], dtype=object)
        f_hidden = (np.asarray(functions["flags"], dtype=np.int64) & _INTERNAL).astype(bool)
        f_row = np.where(f_hidden, _NONE, np.cumsum(~f_hidden) - 1 + len(self._functions["name"]))
        shown = np.flatnonzero(~f_hidden)
        for name, column in (("name", "qualname"), ("module", "module"), ("file", "file"), ("kind", "kind")):
            self._functions[name] += np.asarray(functions[column], dtype=object)[shown].tolist()
        self._functions["line"] += _line(functions["line"])[shown].tolist()
        self._functions["process"] += [process] * len(shown)

        f_position = _ids_to_positions(f_ids)
        s_ids = np.asarray(sites["id"], dtype=np.int64)
        callee = lookup(f_position, np.asarray(sites["function"], dtype=np.int64))
        caller = lookup(f_position, np.asarray(sites["caller"], dtype=np.int64))
        known = callee >= 0
        is_c = np.zeros(len(s_ids), dtype=bool)
        hidden = np.zeros(len(s_ids), dtype=bool)
        caller_hidden = np.zeros(len(s_ids), dtype=bool)
        caller_hidden[caller >= 0] = f_hidden[caller[caller >= 0]]
        is_c[known] = f_kinds[callee[known]] != "python"
        # What frametap's own code calls in C is frametap's too; a Python function it calls is the user's.
        hidden[known] = f_hidden[callee[known]] | (is_c & caller_hidden)[known]
        # Frames around frametap's command line, which the program has not got under plain Python.
        hidden |= (np.asarray(sites["flags"], dtype=np.int64) & SITE_FLAG_HIDDEN) != 0

        position = _ids_to_positions(s_ids)
        kept = np.zeros(len(s_ids), dtype=bool)
        kept[position[position >= 0]] = True  # of two rows with one id the last
        kept &= known
        classes = np.zeros(len(position), dtype=np.uint8)
        bits = known * _core.SITE_KNOWN | is_c * _core.SITE_C | hidden * _core.SITE_HIDDEN
        classes[s_ids[kept]] = bits[kept]
        show = kept & ~hidden
        rows = np.full(len(position), _NONE, dtype=np.int64)
        rows[s_ids[show]] = np.arange(np.count_nonzero(show)) + self.n_sites
        at_home = show & (caller >= 0) & ~caller_hidden
        caller_row = np.full(len(s_ids), _NONE, dtype=np.int64)
        caller_row[at_home] = f_row[caller[at_home]]
        # A line lies in the caller's file: without the caller it means nothing.
        line = np.where(at_home, _line(sites["line"]), -1)
        self._add_sites(f_row[callee[show]], caller_row[show], line[show])
        return ProcessSites(classes, rows)

    def add_unknown(self, process: int, ids: Array) -> Array:
        """Rows for undescribed site ids, distinct and sorted. Beyond the first thousand they share one."""
        named = min(len(ids), _MAX_NAMED_UNKNOWN)
        names = [f"<unknown site {i}>" for i in ids[:named].tolist()]
        if named < len(ids):
            names.append("<other unknown sites>")
        first_function, first_site = len(self._functions["name"]), self.n_sites
        for column, value in (("module", ""), ("file", ""), ("kind", "python"), ("line", -1), ("process", process)):
            self._functions[column] += [value] * len(names)
        self._functions["name"] += names
        n = len(names)
        self._add_sites(np.arange(first_function, first_function + n), np.full(n, _NONE), np.full(n, -1))
        return first_site + np.minimum(np.arange(len(ids)), named)

    def functions(self) -> Table:
        return Table("functions", self._functions)

    def sites(self) -> Table:
        return Table("sites", {name: np.concatenate([np.zeros(0, int), *parts]) for name, parts in self._sites.items()})

    def function_of_site(self) -> Array:
        """Row of functions by row of sites."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *self._sites["function"]])

    def _add_sites(self, function: Array, caller: Array, line: Array) -> None:
        self._sites["function"].append(function)
        self._sites["caller"].append(caller)
        self._sites["line"].append(line)
        self.n_sites += len(function)


def _line(lines: Any) -> Array:
    return np.clip(np.asarray(lines, dtype=np.int64), -1, np.iinfo(np.int32).max)
