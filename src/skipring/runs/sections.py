"""The sections of a run file: their keys, defaults and limits, each with what it means.

Sections that only simulations or only nodes read begin their description with that.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from .._function import IS_FUNCTION
from ..data import check_encoder
from ..errors import InvalidInput, require_delta, require_integer
from ..learning import LOSSES, NETWORKS, require_optimiser
from ..privacy import USUAL_UNIT, Unit
from ..schedules import AUTO, RIVALS, SCHEDULES, DesignedRing
from .wording import by_key

#: No learned timeout is shorter, in seconds, unless nodes agree on another floor: long enough for a small update of a
#: node that is some way off, short enough that a dead one costs little.
FLOOR = 0.1
#: How long nodes take in virtual time where a run file does not say. Nobody is skipped by it, nor do real nodes use it.
USUAL_LAW = "gamma:0.25,1"
#: More moves of a search for an order take minutes, and find hardly anything.
_MOST_MOVES = 100_000_000
#: What becomes of what a node has prepared, and what a node does that cannot compute in time.
Ready = Literal["fresh", "kept", "ahead"]
Late = Literal["skip", "decline", "fewer-rows"]


class Section(BaseModel):
    """A section: its keys, and no others."""

    # JSON has no infinity; without the last word it would become null, which means that nothing was given.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class DataSection(Section):
    """Which data, and how it is prepared and split over nodes."""

    name: str = Field(
        "breast-cancer", description="breast-cancer, digits, hospitals, houses-openml, houses-price, mnist, cifar10"
    )
    path: str | None = Field(
        None, description="a file of your own (csv, parquet or npz) instead of a name; it may lie beside this one"
    )
    label: str | None = Field(None, description="the label's column in your file")
    node: str | None = Field(None, description="the column that says which node a row belongs to")
    person: str | None = Field(None, description="the column that says whose a row is, where persons are protected")
    rows_per_person: int | None = Field(
        None, ge=1, description="persons: how many rows of a person are used at most; the first ones of the file"
    )
    nodes: int | None = Field(None, description="number of nodes (default: 113, or the groups of your file)")
    split: Literal["iid", "dirichlet", "dirichlet-even", "shards", "power-law", "groups"] | None = Field(
        None, description="how rows are dealt to nodes: iid, dirichlet, dirichlet-even, shards, power-law or groups"
    )
    alpha: float = Field(0.5, description="dirichlet, dirichlet-even: small means that nodes see few classes")
    shards_per_node: int = Field(2, description="shards: how many pieces each node gets")
    exponent: float = Field(1.5, description="power-law: how unequal the nodes' sizes are")
    standardise: bool | None = Field(
        None,
        description="mean 0 and deviation 1 for each feature of the training part, which no epsilon covers; default: "
        "true, but for laps, which take the ranges of a data set that has some",
    )
    unit_rows: bool = Field(True, description="scale every row to norm 1; the model's bounds rest on it")
    test_share: float = Field(0.2, description="share of the rows kept for testing")
    validation: float | None = Field(
        None, description="to choose parameters: test on this share of the training rows, and leave the test rows alone"
    )


class ModelSection(Section):
    """Which model."""

    name: str | None = Field(
        None,
        description="logistic (two classes), softmax (more), squared (numbers), cnn, small-cnn, or module:function, "
        "which returns a PyTorch module; default: by the labels",
    )
    intercept: bool = Field(False, description="append a constant column")
    intercept_share: float | None = Field(
        None,
        gt=0.0,
        lt=1.0,
        description="how much of each row's square the constant gets (default: 0.5); the features get the rest",
    )
    ridge: float = Field(0.0, description="weight of half the squared norm of the parameters")
    device: str = Field(
        "auto",
        description="networks, scattering, linear models of many features: auto (a GPU if there is one), cpu or cuda",
    )
    classes: list[str] | None = Field(
        None, description="nodes with files of their own: the classes, in the order that all agreed on"
    )
    features: str = Field(
        "none",
        description="public features of each row, on which a linear model then learns: none, scattering (images), "
        "random-fourier:N, or module:function, which returns a function of rows",
    )
    columns: int | None = Field(
        None,
        ge=1,
        description="nodes with files of their own: how many columns each file has beside the label and the person",
    )
    label_bound: float | None = Field(
        None,
        gt=0.0,
        allow_inf_nan=False,
        description="labels that are numbers: clip them to this absolute value, which the noise follows from",
    )

    def model_post_init(self, _: Any) -> None:
        """Refuse a model that nobody can make, and an agreement that is none."""
        known = (*LOSSES, *NETWORKS)
        if self.name is not None and self.name not in known and IS_FUNCTION.fullmatch(self.name) is None:
            raise InvalidInput("model.name", self.name, f"{', '.join(known)} or module:function")
        if self.classes is not None and (len(self.classes) < 2 or len(set(self.classes)) < len(self.classes)):
            raise InvalidInput("model.classes", self.classes, "at least two names, all different")
        with by_key():
            check_encoder(self.features)
        if self.features != "none" and self.is_network:
            reason = f"is for linear models; the network {self.name} finds features of its own"
            raise InvalidInput.because("model.features", self.features, reason)
        if self.intercept_share is not None and (not self.intercept or self.is_network):
            reason = "is for linear models with model.intercept = true"
            raise InvalidInput.because("model.intercept_share", self.intercept_share, reason)

    @property
    def takes_pixels(self) -> bool:
        """Whether rows are taken as they are: by networks for images, and by the scattering transform."""
        return self.takes_images or self.features == "scattering"

    @property
    def is_network(self) -> bool:
        """Whether the model is a neural network, for which PyTorch is needed."""
        return self.takes_images or self.is_function

    @property
    def takes_images(self) -> bool:
        """Whether the model is a network that is built in, which takes pixels as they are."""
        return self.name in NETWORKS

    @property
    def is_function(self) -> bool:
        """Whether the model is whatever a function of the user's own returns."""
        return self.name is not None and ":" in self.name


class ScheduleSection(Section):
    """Who gets the token next, and for how long; or a rival that has no token."""

    name: str = Field(
        AUTO,
        description="ring, random-ring, designed-ring, random-walk; without a token: laps, gossip, federated. auto: "
        "laps if a linear model protects records or persons in a simulation, else random-ring",
    )
    steps: int | None = Field(
        None,
        ge=1,
        description="hops of the token, skipped ones included (default: 30 rounds); gossip, federated: iterations "
        "(default: 30); laps have laps.laps",
    )
    closing: int | None = Field(
        None,
        ge=0,
        description="designed-ring: hops at the end that add noise and no gradient (default: 2; networks: 0)",
    )
    search: int | None = Field(
        None,
        ge=0,
        le=_MOST_MOVES,
        description="designed-ring: moves to look for a better order with (default: some seconds' worth; 0: none)",
    )

    def model_post_init(self, _: Any) -> None:
        """Refuse a schedule that nobody knows; `skipring.schedules.register_schedule` makes one known."""
        if self.name not in (*SCHEDULES, *RIVALS, AUTO):
            raise InvalidInput("schedule.name", self.name, f"one of {', '.join((*SCHEDULES, *RIVALS))}")
        for key in ("closing", "search"):
            given = getattr(self, key)
            if given is not None and self.name != DesignedRing.name:
                reason = f"is for designed-ring; {self.name} has none"
                raise InvalidInput.because(f"schedule.{key}", given, reason)


class DelaySection(Section):
    """How long nodes take, and how long they are waited for."""

    law: str | None = Field(
        None,
        examples=[USUAL_LAW],
        description="how long nodes take: exponential:1, gamma:0.25,1, lomax:3,2, empirical:FILE.csv, scipy:... "
        f"(default: nobody is skipped, and simulations tell the time by {USUAL_LAW})",
    )
    hop_latency: float = Field(0.01, ge=0.0, allow_inf_nan=False, description="time a hop takes")
    timeout: float | Literal["most-updates", "adaptive"] | None = Field(
        None,
        description='a time, or inf (never skip; the default without a law), or "most-updates" (least time between '
        'updates; the default with one). "adaptive": the nodes of a network learn it, as they do unless a time is '
        "given. `skipring plan` finds the time that is best for a budget",
    )
    floor: float | None = Field(
        None,
        ge=0.001,
        le=60.0,
        description=f"seconds (default: {FLOOR:g}): no timeout that the nodes of a network learn is shorter, whatever "
        "one of them claims about how long turns take",
    )
    skip: float | None = Field(None, description="the skip probability, instead of a timeout")
    patient_every: int | None = Field(
        None, ge=1, description="k: nobody is skipped in every k-th round (default: never)"
    )
    ready: Ready | None = Field(
        None,
        description="what becomes of a node's preparation. fresh: begun anew at each turn, and lost if it is skipped "
        "(the default of simulations). kept: a skipped node goes on. ahead: the next one begins right after an update",
    )


class ComputeSection(Section):
    """How long an update takes, once a node has the token."""

    law: str | None = Field(
        None,
        description="time to compute on a full batch, as delay.law spells it (default: none); the timeout covers it",
    )
    late: Late | None = Field(
        None,
        description="a node that cannot finish in time passes the token on unchanged (skip, the default). Or it says "
        "from then on at once that it is too slow (decline), or computes on as many rows as fit (fewer-rows)",
    )


class LapsSection(Section):
    """Simulations only: how many private sums there are, and against how many nodes they protect (schedule laps)."""

    laps: int | Literal["auto"] = Field(
        "auto", description='how many laps, in place of schedule.steps ("auto": 5; 1 for numbers as labels; else 100)'
    )
    optimiser: str = Field(
        "auto",
        description="what makes steps of sums: five-laps (x x' first; auto: linear models of at most 100 numbers), "
        "momentum (auto: larger ones, and networks), adam or torch.optim:NAME",
    )
    rate: float | None = Field(
        None,
        gt=0.0,
        allow_inf_nan=False,
        description="how far steps go (default: by the model; torch.optim: its own rate)",
    )
    coalition: int | None = Field(
        None, description="how many nodes may put together what they know (default: a fifth of them, and one at least)"
    )
    least_nodes: int | None = Field(
        None, description="a lap with fewer nodes is void (default: more than half, and one more than may collude)"
    )
    deadline: float | Literal["most-rows"] | None = Field(
        None,
        description="how long a lap waits, in place of delay.timeout: a time, inf, or most-rows (the most "
        "contributions per time; the default with a law of delays)",
    )
    floor: float = Field(
        0.0,
        ge=0.0,
        allow_inf_nan=False,
        description="the least noise of one node's share, over the most that one record or person contributes: what is "
        "left if all others collude",
    )

    def model_post_init(self, _: Any) -> None:
        """Refuse numbers that no laps have."""
        if self.laps != "auto":  # a constraint would be one of words, too
            require_integer("laps.laps", self.laps, 1)
        require_optimiser(self.optimiser)
        if isinstance(self.deadline, float) and not self.deadline > 0.0:
            raise InvalidInput("laps.deadline", self.deadline, "above 0, inf or most-rows")


class GossipSection(Section):
    """Simulations only: how neighbours average their models, with schedule gossip."""

    rounds: int = Field(2, description="rounds of averaging after each step")
    degree: float | None = Field(None, description="mean number of neighbours (default: ln nodes)")
    acceleration: bool = Field(False, description="Chebyshev's acceleration, if there are several rounds")
    slots: float | None = Field(None, description="time slots of a round (default: simulated)")
    access: float | None = Field(None, description="probability of speaking in a slot (default: the best one)")


class FederatedSection(Section):
    """Simulations only: how nodes reach the server, with schedule federated."""

    channels: int = Field(100, description="how many nodes upload at the same time")


class Stragglers(Section):
    """Simulations only: departures from delays that are independent and alike.

    A node is fast or slow, and begins in its long-run state; all begin alive, and the dead never answer.

    >>> Stragglers(become_slow=0.05, become_fast=0.2, slow_factor=20.0).identical
    False
    """

    speeds: list[Annotated[float, Field(gt=0.0)]] | None = Field(
        None, description="a factor for the delays of each node"
    )
    slow_class: int | None = Field(None, description="nodes that hold mostly this class are slower, by class_factor")
    class_factor: float = Field(10.0, gt=0.0, allow_inf_nan=False, description="how much longer their delays are")
    slow_factor: float = Field(
        1.0, gt=0.0, allow_inf_nan=False, description="how much longer delays are while a node is slow"
    )
    become_slow: float = Field(0.0, ge=0.0, le=1.0, description="probability to turn slow between two turns")
    become_fast: float = Field(1.0, ge=0.0, le=1.0, description="probability to turn fast again")
    die: float = Field(0.0, ge=0.0, le=1.0, description="probability to die between two turns")
    revive: float = Field(1.0, ge=0.0, le=1.0, description="probability to come back")
    lost_link: float = Field(0.0, ge=0.0, lt=1.0, description="probability that a hop's offer or answer is lost")
    availability: str | None = Field(
        None, description="trace:FILE, when each node can be reached at all (docs/lateness.md has the format)"
    )

    def check(self, nodes: int) -> None:
        """Refuse speeds of more or fewer nodes than there are."""
        if self.speeds is not None and len(self.speeds) != nodes:
            raise InvalidInput("speeds", f"{len(self.speeds)} numbers", f"one for each of the {nodes} nodes")

    @property
    def identical(self) -> bool:
        """Whether delays are independent and identically distributed, as forecasts of privacy assume."""
        return self.speeds is None and not self.drifts and self.die == 0.0

    @property
    def drifts(self) -> bool:
        """Whether nodes turn slow, and fast again."""
        return self.slow_factor != 1.0 and self.become_slow > 0.0

    @property
    def may_never_answer(self) -> bool:
        """Whether some hops have no answer at all, so that a timeout is needed."""
        return self.die > 0.0 or self.lost_link > 0.0


class LearningSection(Section):
    """How an update is made."""

    rate: float = Field(0.3, description="learning rate")
    step_size: Literal["sqrt", "constant", "own"] = Field(
        "sqrt", description="sqrt: rate / sqrt(update number); constant; own"
    )
    own: list[float] = Field([], description="own: the step sizes, one for each step")
    batch: int | None = Field(
        None,
        description="rows per update. Records and persons: the most that an update takes, and what its sum is divided "
        "by (default: the rows of the largest node). Nodes: drawn for each update (default: all rows of the node)",
    )
    diameter: float | None = Field(
        None, description="diameter of the parameters' ball (default: 10; networks, gossip, federated: none)"
    )
    gradient_bound: float | None = Field(
        None, description="clip each example's gradient, if smaller than its natural bound"
    )
    clip_noisy: float | None = Field(
        None,
        gt=0.0,
        allow_inf_nan=False,
        description="gossip, federated: clip a node's gradient to this norm after noise was added",
    )


class PrivacySection(Section):
    """How much noise."""

    protects: Unit = Field(
        USUAL_UNIT,
        description="record (one row), person (all rows of one person) or node (all of its rows)",
    )
    noise_multiplier: float | None = Field(
        None,
        ge=0.0,
        allow_inf_nan=False,
        description="noise std over the most that one protected record, person or node can contribute; 0: no privacy",
    )
    epsilon: float | None = Field(None, description="or the budget that the noise must keep (default: 8)")
    delta: float = Field(1e-5, description="the delta of the budget and of the report")

    def model_post_init(self, _: Any) -> None:
        """Refuse a delta that no epsilon goes with."""
        with by_key():
            require_delta(self.delta)


class SimulationSection(Section):
    """Simulations only, but for the seed: how many runs, and what is kept of them."""

    runs: int = Field(20, ge=1, description="number of runs")
    seed: int = Field(
        1,
        ge=0,
        description="the same seed gives the same bytes, on any number of threads, unless a model is saved. The "
        "first weights of a network are drawn with seed (nodes) or seed + the number of the run, from 0",
    )
    evaluate_every: int = Field(100, ge=1, description="steps between two evaluations on the test rows")
    record_path: bool = Field(True, description="account for the path that the first run took")


class NetworkSection(Section):
    """Real nodes only, but for the latency: when they lose patience."""

    lease: float = Field(2.0, gt=0.0, description="time for an answer that has nothing to wait for")
    silence: float = Field(30.0, gt=0.0, description="after so long without a sign of the token, a recovery begins")
    identity: str | None = Field(
        None,
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9a-f]{24}$",
        description="which run it is; `skipring network init` and `network new-run` make it up",
    )
    quorum: int | list[str] | None = Field(
        None,
        description="the run goes on while a majority of nodes answers; ask for more: how many, or the names of nodes "
        "without which it waits",
    )
    latency: str | None = Field(
        None, description="simulations: trace:FILE, how long a hop takes between each two nodes (not delay.hop_latency)"
    )
