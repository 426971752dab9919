"""Numbers as people read them: a bound that is printed is still a bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipring._numbers import upper, upper_fixed
from skipring.privacy import Guarantee, promised

BOUNDS = st.floats(min_value=1e-12, max_value=1e12) | st.floats(min_value=1e-3, max_value=100.0)


@given(BOUNDS, st.integers(min_value=2, max_value=4))
def test_a_printed_bound_is_not_below_the_exact_one_nor_far_above_it(value: float, digits: int) -> None:
    printed = float(upper(value, digits))
    assert printed >= value
    unit = 1.0 if 1e4 <= value < 1e7 else 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    assert printed - value <= unit * (1.0 + 1e-9)


@given(BOUNDS, st.integers(min_value=0, max_value=6))
def test_so_it_is_in_a_column_of_a_table(value: float, decimals: int) -> None:
    text = upper_fixed(value, decimals)
    assert len(text.partition(".")[2]) == decimals
    assert float(text) >= value
    assert float(text) - value <= 10.0**-decimals * (1.0 + 1e-9) + math.ulp(value)


@given(st.integers(min_value=1, max_value=9999), st.integers(min_value=-8, max_value=3))
def test_what_can_be_written_exactly_is(number: int, exponent: int) -> None:
    value = float(f"{number}e{exponent}")
    assert float(upper(value)) == value
    assert float(upper_fixed(value, 8)) == value


def test_no_bound_is_none() -> None:
    assert (upper(math.inf), upper_fixed(math.inf, 3), upper(0.0), upper_fixed(0.0, 3)) == (
        "infinity",
        "infinity",
        "0",
        "0.000",
    )


@pytest.mark.parametrize(("epsilon", "said"), [(0.60841, "0.6085"), (1.00001, "1.001"), (7.99999, "8")])
def test_sentences_say_the_upper_one(epsilon: float, said: str) -> None:
    stated = Guarantee(
        protects="node", whose="a", against="b", sees="which sees all", method="tight", delta=1e-5, epsilon=epsilon
    )
    assert f"Epsilon {said} at delta 1e-05 protects" in stated.sentence()
    assert promised(epsilon) == said
