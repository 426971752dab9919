"""One certified member lies, and the others end their run with one model, under the promises of test_histories.py.

First the attacks that are known, one by one; then histories in which the liar sends anything; then the rules, each of
which is taken away once, and missed.
"""

from __future__ import annotations

import liar
import pytest

SEEDS = range(10)


@pytest.mark.parametrize("name", ["ends the run", "votes for others"])
def test_one_node_alone_does_not_end_a_run(name: str) -> None:
    for seed in SEEDS:
        found = liar.attacked(seed, name)
        outcomes = {machine.memory.outcome for node, machine in enumerate(found.machines) if node != found.liar}
        assert len(outcomes) == 1
        assert not {token.parameters for token in outcomes if token is not None} & found.forged
        # Nobody but the liar is named, and everybody whom it has told something has named it.
        assert {broke.node for _, broke in found.broke} == {found.liar}
        assert {broke.rule for _, broke in found.broke} == {"outcome"}
