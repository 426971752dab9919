"""What a node counts comes from typed events; the text of its log decides nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

from skipring.network.node import Telemetry
from skipring.network.node.events import (
    BudgetSpent,
    Event,
    OfferRefused,
    ProtocolNews,
    RunOver,
    Started,
    TokenAccepted,
    Updated,
)
from skipring.network.protocol import News


def told(*events: Event) -> tuple[Telemetry, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    telemetry = Telemetry(lambda event, **facts: lines.append({"event": event} | facts), lambda: 5.0, hop=3)
    for event in events:
        telemetry.note(event)
    return telemetry, lines


def test_recoveries_are_counted_by_kind_whatever_the_text_says() -> None:
    other = ProtocolNews(News.NO_QUORUM, "no recovery, only waiting")
    telemetry, lines = told(ProtocolNews(News.RECOVERY, "a new ballot"), other)
    assert telemetry.recoveries == 1
    assert lines == [
        {"event": "protocol", "what": "a new ballot", "level": "info"},
        {"event": "protocol", "what": "no recovery, only waiting", "level": "info"},
    ]


def test_a_turn_that_the_budget_refuses_is_counted_once_and_the_first_is_news() -> None:
    events = [
        BudgetSpent(4, 1.5, 2.0),
        OfferRefused(),
        BudgetSpent(4, 1.5, 2.0),
        OfferRefused(),
        BudgetSpent(9, 1.5, 2.0),
    ]
    telemetry, lines = told(*events)
    assert (telemetry.refused_for_budget, telemetry.refused) == (2, 2)
    assert [(line["hop"], line["level"]) for line in lines] == [(4, "info"), (9, "debug")]


def test_the_log_says_what_an_event_holds() -> None:
    telemetry, lines = told(
        Started("localhost:1", 3), TokenAccepted(5), Updated(5, 2), RunOver(7, "ab", 0), RunOver(7, "ab", 1)
    )
    assert telemetry.hop == 5
    assert lines == [
        {"event": "started", "listen": "localhost:1", "hop": 3, "level": "info"},
        {"event": "updated", "hop": 5, "updates": 2, "rows": "all", "level": "debug"},
        {"event": "over", "updates": 7, "model": "ab", "level": "info"},
        {"event": "over", "updates": 7, "model": "ab", "refused_for_budget": 1, "level": "info"},
    ]


def test_nothing_in_an_event_takes_the_place_of_what_every_line_says() -> None:
    """Lines of all nodes may be collected in one place: `node` is whoever wrote it."""
    logged = [each for each in Event.__subclasses__() if each.name is not None]
    assert len(logged) > 10
    for each in logged:
        assert not {"time", "node", "event"} & {field.name for field in dataclasses.fields(each)}, each
