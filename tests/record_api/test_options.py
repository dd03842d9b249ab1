"""Options are checked when they are made, and say what is allowed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import frametap
from frametap import OptionError, Options


@pytest.mark.parametrize(
    ("option", "value"),
    [("engine", "fast"), ("engine", None), ("c_calls", 1), ("gc", "no"), ("output", ""), ("output", 3)],
)
def test_value_that_is_not_allowed_is_refused_by_name(option, value) -> None:
    with pytest.raises(OptionError, match=rf"^{option}=.*must be") as caught:
        Options(**{option: value})
    assert caught.value.option == option
    assert repr(value) in str(caught.value)


def test_engine_that_cannot_see_c_calls_is_refused_with_them() -> None:
    with pytest.raises(OptionError, match="C calls"):
        Options(engine="frame_hook", c_calls=True)
    assert Options(engine="set_profile", c_calls=True).c_calls


def test_options_are_frozen_and_named() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().gc = False
    with pytest.raises(TypeError):
        Options("x.ftap")


def test_options_are_stored_as_json() -> None:
    stored = Options(output=Path("x.ftap"), c_calls=True).to_dict()
    assert json.loads(json.dumps(stored)) == {"output": "x.ftap", "engine": "auto", "c_calls": True, "gc": True}
    assert set(stored) == {field.name for field in dataclasses.fields(Options)}


def test_unknown_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        frametap.trace("x.ftap", colour=True)
