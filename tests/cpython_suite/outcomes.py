"""Runs one of CPython's test modules and writes each test's outcome: ``outcomes.py MODULE OUT.json``.

A script, run traced and untraced by test_same_outcomes.py in an interpreter of its own.
"""

import json
import sys
import unittest


class Outcomes(unittest.TestResult):
    """Remembers one word per test; a test whose subtests fail has failed."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def _note(self, test, outcome):
        name = test.id()
        if self.found.get(name) in (None, "ok"):
            self.found[name] = outcome

    def addSuccess(self, test):
        self._note(test, "ok")

    def addError(self, test, error):
        super().addError(test, error)
        self._note(test, "error")

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._note(test, "failed")

    def addSkip(self, test, reason):
        self._note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self._note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self._note(test, "unexpected success")

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self._note(test, "failed")


def main(module, out):
    result = Outcomes()
    unittest.defaultTestLoader.loadTestsFromName(module).run(result)
    messages = {test.id(): text for test, text in result.errors + result.failures}
    with open(out, "w") as file:
        json.dump({"outcomes": result.found, "messages": messages}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
