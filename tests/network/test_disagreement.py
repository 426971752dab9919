"""A node with another run file is there: the others wait for it, all are told what differs, and it can be mended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from test_nodes import LOOP, QUICK, make

from skipring.network.node import Node
from skipring.network.protocol import Copy, Kind, Released, Token
from skipring.network.setup import load_node, open_journal, why_not_started
from skipring.network.storage import JournalFile, JournalUnusable, read_journal


def other_noise(config: Path) -> str:
    """Give a node another run file than the others have; return what it had."""
    run = config.with_name("run.toml")
    text = run.read_text()
    assert "noise_multiplier = 3.0" in text
    run.write_text(text.replace("noise_multiplier = 3.0", "noise_multiplier = 4.0"))
    return text


def test_a_run_waits_for_a_node_with_another_run_file_until_it_is_mended(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 3, QUICK)
    right = other_noise(configs[2])
    for config in configs:
        text = config.read_text()
        config.write_text(f"start_wait = 1.0\n{text}")
    said: list[tuple[int, str, str]] = []
    journals: list[JournalFile] = []

    def node_of(config: Path) -> Node:
        setup = load_node(config)
        journals.append(open_journal(setup))
        return Node(setup, journals[-1], lambda event, **facts: said.append((setup.me, event, str(facts))))

    async def story() -> None:
        nodes = [node_of(config) for config in configs]
        tasks = [asyncio.create_task(node.run()) for node in nodes]
        await asyncio.sleep(3.0)
        assert [node.account.releases for node in nodes] == [0, 0, 0]
        assert not any(event == "incomplete" for _, event, _ in said)
        nodes[2].stop()
        await tasks[2]
        journals[2].close()
        configs[2].with_name("run.toml").write_text(right)
        assert why_not_started(configs[2].parent) == ""
        tasks[2] = asyncio.create_task(node_of(configs[2]).run())
        await asyncio.wait_for(asyncio.gather(*tasks), 60.0)

    try:
        LOOP.run(story())
    finally:
        for journal in journals:
            journal.close()
    there, here = "privacy.noise_multiplier is 4.0 there, 3.0 here", "privacy.noise_multiplier is 3.0 there, 4.0 here"
    for event in ("refused", "waiting"):
        for me in (0, 1):
            assert any((who, what) == (me, event) and "node3" in text and there in text for who, what, text in said)
    assert any((who, what) == (2, "refused") and here in text for who, what, text in said)
    assert len({config.with_name("model.npy").read_bytes() for config in configs}) == 1


def test_a_journal_that_was_used_under_another_agreement_is_kept(tmp_path: Path) -> None:
    config = make(tmp_path / "net", 3, QUICK)[0]
    right = other_noise(config)
    setup = load_node(config)
    with open_journal(setup) as journal:
        first = setup.rules.path[0]
        journal.append(Released(Copy((0, first), 1, Kind.UPDATED, Token(1, b"model", setup.initial.chain))))
    config.with_name("run.toml").write_text(right)
    with pytest.raises(JournalUnusable, match=r"run\.toml has changed \(privacy\.noise_multiplier\) since it began"):
        open_journal(load_node(config))
    assert len(read_journal(config.with_name("journal.sqlite")).releases) == 1
