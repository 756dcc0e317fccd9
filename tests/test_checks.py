"""The checks of numbers and words that all parameters share."""

import re
import subprocess
import sys
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from stillspace._checks import (
    checked_choice,
    checked_delta,
    checked_epsilon,
    checked_number,
    checked_positive,
    checked_whole,
    default_delta,
    is_number,
    is_whole,
)


@pytest.mark.parametrize("value", [1, 7, np.int8(7), np.uint64(3)])
def test_whole_numbers(value):
    found = checked_whole("x", value)
    assert type(found) is int
    assert found == value


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None, nan, np.array(3), 10**400, [1]])
def test_what_is_no_whole_number_of_at_least_1(value):
    with pytest.raises(ValueError, match=r"^x must be a whole number of at least 1") as refused:
        checked_whole("x", value)
    assert re.fullmatch(r"[^\n]{,120}\.", str(refused.value))


def test_a_largest_value_comes_with_its_reason():
    with pytest.raises(ValueError, match=r"whole number in 2…5 \(why\), got 6\."):
        checked_whole("x", 6, 2, 5, why="why")
    assert checked_whole("x", 5, 2, 5) == 5


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), Fraction(1, 2), 2**61])
def test_positive_numbers(value):
    found = checked_positive("x", value)
    assert type(found) is float
    assert found == value


@pytest.mark.parametrize("value", [0, -1.0, inf, nan, "1", None, True, 1j, 10**400, np.ones(1)])
def test_what_is_no_positive_number(value):
    with pytest.raises(ValueError, match=re.escape("x must be a number in (0, ∞), got ")):
        checked_positive("x", value)


def test_ends_of_intervals():
    assert checked_number("x", 1, 0.0, 1.0, inside=False) == 1.0
    with pytest.raises(ValueError, match=re.escape("in (0, 1), got 1.")):
        checked_number("x", 1, 0.0, 1.0)
    with pytest.raises(ValueError, match=re.escape("in [0, 1], got 2.")):
        checked_number("x", 2, 0.0, 1.0, inside=False)
    with pytest.raises(ValueError, match=re.escape("in [0, ∞), got -1.")):
        checked_number("x", -1, 0.0, inside=False)


def test_budgets():
    assert checked_epsilon(50) == 50.0
    with pytest.raises(ValueError, match=r"epsilon must be at most 50, got 50.5"):
        checked_epsilon(50.5)
    assert checked_delta(1e-30) == 1e-30
    with pytest.raises(ValueError, match="at least 1e-30"):
        checked_delta(1e-31)
    assert default_delta(100) == 1e-6
    assert default_delta(10**6) == pytest.approx(1e-9)
    assert default_delta(10**4) == 1e-6


def test_words_and_kinds():
    assert checked_choice("x", "a", ("a", "b")) == "a"
    with pytest.raises(ValueError, match="x must be one of 'a', 'b', got a value of type ndarray"):
        checked_choice("x", np.array(["a"]), ("a", "b"))
    assert not is_whole(2**62)
    assert is_whole(2**62 - 1)
    assert is_number(nan)
    assert not is_number(np.True_)


def test_checking_imports_no_library():
    """The command checks its options before it waits for NumPy."""
    code = "import sys, stillspace._checks; print('numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
