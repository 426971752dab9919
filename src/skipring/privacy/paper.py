"""The paper's theorems as an accountant: for comparison, under the name ``paper``."""

from __future__ import annotations

import math

from scipy.special import betainc

from ..errors import LEAST_DELTA, InvalidInput, require_delta, require_non_negative, require_open_unit, require_positive
from ..timeouts import TurnLaw
from .accountant import ANOTHER_NODE, Guarantee
from .forecast import forecast
from .gaussian import ROUNDING, smallest
from .orders import AgreedOrder
from .record import IndependentSkips, Members, PlannedRun, Protected, SureOthers
from .theorems import stated_epsilon, visits


class PaperBound:
    """What Theorem 2, 3 or 4 of the paper states for a run; it holds with delta + delta_prime.

    The paper protects a whole node. Its theorems use no more than how far one update moves if what is protected is
    replaced. So they speak about a person or a record as well, as long as it may contribute at every turn of its node.
    Rotation is refused.

    >>> from skipring.privacy import planned_run
    >>> run = planned_run(schedule="random-ring", nodes=1000, steps=24000, skip=1e-4, noise_multiplier=10.5976)
    >>> round(PaperBound(run, delta_prime=1e-12).epsilon(1e-6), 3)
    2.202
    """

    def __init__(self, run: PlannedRun, *, delta_prime: float) -> None:
        require_open_unit("delta_prime", delta_prime)
        delta_prime = float(delta_prime)
        kind = "the paper's theorems do not cover {}; the method tight does"
        if run.order_is_known:
            raise InvalidInput.because("schedule", run.schedule, kind.format("an order that is known"))
        if not run.convex:
            reason = "the paper's theorems are about convex losses only; the method tight covers others, too"
            raise InvalidInput.because("non_convex", "", reason)
        if isinstance(run.taking_part, SureOthers):
            raise InvalidInput.because("others", "", kind.format("skips that depend on each other"))
        if run.unit.parts != (1,):
            raise InvalidInput.because("parts", run.unit.every, kind.format("rows that take turns"))
        assert not isinstance(run.order, AgreedOrder)  # which is known
        covered = PlannedRun(
            order=type(run.order)(nodes=run.nodes, steps=run.steps),
            taking_part=IndependentSkips(skip=run.taking_part.skip),
            observer=Members(),
            unit=Protected(protects=run.protects),
            noise_multiplier=run.noise_multiplier,
        ).keywords
        for parameter, given in run.keywords.items():
            if covered.get(parameter) != given:
                raise InvalidInput.because(parameter, given, kind.format("this"))
        assert run.kind.theorem is not None
        self.run, self._theorem = run, run.kind.theorem
        self.delta_prime = delta_prime
        self.method = "paper"

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return what the theorem states, at delta + delta_prime, and the `doubt`; or an epsilon known to be kept."""
        return Guarantee(
            protects=self.run.protects,
            whose="any node",
            against=ANOTHER_NODE,
            sees="which sees the token at each of its turns",
            method=self.method,
            delta=delta + self.delta_prime,
            epsilon=self.epsilon(delta) if epsilon is None else epsilon,
            doubt=self.doubt(delta) or None,
            not_covered="the final model" + ("" if self.run.protects == "node" else ", and all data of a node"),
            stated_by="the paper's theorem",
        )

    def doubt(self, delta: float) -> str:
        """Say why the value at `delta` is not shown to hold; empty where it is.

        Theorem 2 counts the target's updates, so its value holds where the exact probability of more updates than it
        counts is at most delta_prime. The proofs of Theorems 3 and 4 have gaps: their values are believed only where
        the tight forecast proves as much, at the same total delta.
        """
        delta = float(delta)
        run, epsilon = self.run, self.epsilon(delta)
        if run.kind.turns is TurnLaw.IN_PLACE:
            counted = visits(run.nodes, run.steps, run.skip, self.delta_prime)
            beyond = _chance_of_more(counted, run.rounds, run.target_ready)
            if beyond <= self.delta_prime:
                return ""
            return (
                f"Theorem 2 counts {counted} updates of a node; more happen with probability {beyond:.2g}, above delta'"
                f" = {self.delta_prime:g}"
            )
        proven, total = forecast(run), delta + self.delta_prime
        if proven.keeps(epsilon, total):
            return ""
        return (
            f"Theorem {run.kind.theorem} claims {epsilon:.4g}, and only {proven.epsilon(total):.4g} is proven;"
            " it is false where few nodes take part in a round"
        )

    def epsilon(self, delta: float) -> float:
        """Return epsilon; the statement holds with probability parameter delta + delta_prime."""
        require_delta(delta)
        if not delta + self.delta_prime < 1.0:
            raise InvalidInput("delta_prime", self.delta_prime, f"so small that with delta = {delta:g} it is below 1")
        run = self.run
        return stated_epsilon(
            self._theorem,
            nodes=run.nodes,
            steps=run.steps,
            skip=run.skip,
            noise_multiplier=run.noise_multiplier,
            delta=delta,
            delta_prime=self.delta_prime,
        )

    def with_noise(self, noise_multiplier: float) -> PaperBound:
        """Return what the theorem states for another noise."""
        return PaperBound(self.run.with_noise(noise_multiplier), delta_prime=self.delta_prime)

    @property
    def facts(self) -> dict[str, object]:
        """What is told of the accounting beside its guarantee."""
        return {"delta_prime": self.delta_prime}

    def kinds(self, delta: float) -> int:
        """Return 1: all units contribute at every turn."""
        return 1

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return the logarithm of how many times larger than its budget epsilon is."""
        require_positive("epsilon", epsilon)
        return math.log(self.epsilon(delta)) - math.log(epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta (without delta_prime, at least 1e-75) at which the theorem gives this epsilon."""
        require_non_negative("epsilon", epsilon)
        epsilon, largest = float(epsilon), (1.0 - self.delta_prime) * (1.0 - 1e-12)
        if self.epsilon(largest) > epsilon:
            raise InvalidInput("epsilon", epsilon, f"at least {self.epsilon(largest):.4g} for any delta below 1")
        if self.epsilon(LEAST_DELTA) <= epsilon:
            return LEAST_DELTA
        return smallest(lambda delta: self.epsilon(delta) <= epsilon, LEAST_DELTA, largest)


def _chance_of_more(counted: int, trials: int, probability: float) -> float:
    """Return P(Binomial(trials, probability) > counted), rounded up."""
    if counted >= trials:
        return 0.0
    return float(betainc(counted + 1.0, trials - counted, min(1.0, probability))) * ROUNDING
