"""`Budget`: what one data set may still give away, kept in a file that all fits share."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal, Self, TypeAlias, get_args

from stillspace._checks import checked_choice, checked_delta, checked_epsilon, checked_whole
from stillspace._html import facts_in_html
from stillspace.exceptions import BudgetError, BudgetExceededError, NotAccountedError
from stillspace.privacy import ledger
from stillspace.privacy.chain import Entry
from stillspace.privacy.events import ComposedEvent, Relation, check_relation
from stillspace.privacy.filters import (
    KINDS,
    SMALLEST_DELTA,
    Kind,
    LedgerTerms,
    Tally,
    charge_of,
    checked_orders,
    fixed_terms,
)
from stillspace.privacy.ledger import LedgerFile, Link, Proposal
from stillspace.privacy.receipts import Receipt
from stillspace.privacy.rights import Rights, grant

Mode: TypeAlias = Literal["open-or-create", "open", "create"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Budget:
    """A ledger in a file: all fits that are charged to it are (ε, δ)-private *together*.

    It is a privacy filter: the next fit may be chosen after seeing the last one. A fit is charged
    before it reads a cell, and stays charged whatever becomes of it. What does not fit in is
    refused with `BudgetExceededError`, and changes nothing.

    A `Budget` is a handle: copies, clones, pickles and forks of it charge the same file.

    Parameters
    ----------
    path : path
        The file. With `epsilon` and `delta` it is made if it is not there; otherwise it is opened,
        and whatever else is given must be what it was made with.
    epsilon, delta : float
    kind : {"gaussian", "renyi"}, default="gaussian"
        "gaussian" takes fits that read all rows in every step, and adds up μ² (exact). "renyi"
        takes the stochastic ones too, and adds up Rényi divergences.
    orders : sequence of float, default=None
        Of a renyi ledger; each gets δ/(their number). None means one order, the best one for
        full-batch fits.
    neighboring_relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        A replace-one ledger also takes add-or-remove-one fits, charged under replace-one.
    rows_per_person : int, default=1
        Whom the ledger protects: fits must be made for at least as many.
    mode : {"open-or-create", "open", "create"}, default="open-or-create"
        "open" never makes a file: a ledger that was deleted or moved is then an error, not a new
        budget. "create" never opens one: it raises if something of this name is there.
    note : str, default=""
        Written down with every fit that is charged through this handle: why it was made. Public.
    timeout : float, default=60
        Seconds to wait for other processes.

    Examples
    --------
    >>> import tempfile, os
    >>> from stillspace import Budget, PrivatePCA
    >>> from stillspace.datasets import make_haystack
    >>> X = make_haystack(1000, 5, 2, random_state=0).X
    >>> budget = Budget(os.path.join(tempfile.mkdtemp(), "ledger.db"), epsilon=3, delta=1e-5)
    >>> fit = PrivatePCA(2, epsilon=1.0, delta=1e-6, budget=budget, center=None).fit(X)
    >>> 0 < budget.spent() < 0.2, len(budget.entries())
    (True, 1)
    """

    __slots__ = ("_ledger", "_note", "_path", "_terms")

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        kind: Kind | None = None,
        orders: Iterable[float] | None = None,
        neighboring_relation: Relation | None = None,
        rows_per_person: int | None = None,
        mode: Mode = "open-or-create",
        note: str = "",
        timeout: float = 60.0,
    ) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._note = str(note)
        self._ledger = LedgerFile(self._path, _checked_timeout(timeout))
        checked_choice("mode", mode, MODES)
        # Checked before a file is made, and as the numbers that a ledger holds.
        given: dict[str, Any] = {}
        if epsilon is not None:
            given["epsilon"] = checked_epsilon(epsilon)
        if delta is not None:
            given["delta"] = checked_delta(delta, smallest=SMALLEST_DELTA)
        if kind is not None:
            given["kind"] = checked_choice("kind", kind, KINDS)
        if orders is not None:
            given["orders"] = checked_orders(orders)
        if neighboring_relation is not None:
            check_relation(neighboring_relation)
            given["neighboring_relation"] = neighboring_relation
        if rows_per_person is not None:
            given["rows_per_person"] = checked_whole("rows_per_person", rows_per_person)
        if mode == "create" or (mode != "open" and not os.path.lexists(self._path)):
            made = self._create(given)
            if mode == "create" and not made:
                raise BudgetError(
                    f"{self._path} exists already, and mode='create' only makes new ledgers; give "
                    "another path, or mode='open' to use the existing ledger."
                )
        elif not os.path.lexists(self._path):
            raise BudgetError(
                f"There is no ledger at {self._path}, and mode='open' makes none. If the ledger "
                "was moved or deleted, restore it: a new ledger would not count earlier fits."
            )
        self._ledger.read()
        assert self._ledger.terms is not None  # read
        self._terms: LedgerTerms = self._ledger.terms
        self._check_same(given)

    def _create(self, given: dict[str, Any]) -> bool:
        """Make the ledger; False if there is a file of this name already."""
        if not given.keys() >= {"epsilon", "delta"}:
            msg = f"There is no ledger at {self._path}; give epsilon and delta to create one."
            raise BudgetError(msg)
        if not os.path.isdir(os.path.dirname(self._path)):
            raise BudgetError(f"The folder of {self._path} does not exist; create it first.")
        return ledger.create(self._path, fixed_terms(**given), self._ledger.timeout)

    def _check_same(self, given: dict[str, Any]) -> None:
        for name, value in given.items():
            stored = getattr(self._terms, name)
            if value != stored:
                raise BudgetError(
                    f"The ledger {self._path} has {name}={stored!r}, not {value!r}, and a "
                    f"ledger's terms never change; leave {name} out, or use another file."
                )

    @property
    def path(self) -> str:
        """The ledger's file."""
        return self._path

    @property
    def epsilon(self) -> float:
        """ε of all fits together."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """δ of all fits together."""
        return self._terms.delta

    @property
    def kind(self) -> Kind:
        """What is added up: "gaussian" (μ²) or "renyi" (Rényi divergences)."""
        return self._terms.kind

    @property
    def orders(self) -> tuple[float, ...]:
        """The Rényi orders; none for a gaussian ledger."""
        return self._terms.orders

    @property
    def neighboring_relation(self) -> Relation:
        """Which data sets the ledger makes hard to tell apart."""
        return self._terms.neighboring_relation

    @property
    def rows_per_person(self) -> int:
        """How many rows a protected person may own."""
        return self._terms.rows_per_person

    def charge(
        self,
        event: ComposedEvent,
        neighboring_relation: Relation,
        *,
        name: str = "",
        delta: float | None = None,
        plan: str = "",
        note: str = "",
        not_private_because: Iterable[str] = (),
        journal: str | None = None,
        answers: int = 0,
    ) -> Entry:
        """Charge a fit, durably, or raise and change nothing. Call it before any row is read.

        `event` is all that the fit will do, or a ceiling of it if the fit divides its noise as it
        goes. `not_private_because`: reasons for which the fit is none that a ledger takes. `delta`,
        the fingerprint of the `plan` and a `note` (this handle's, if none is given) are written
        down with it: public facts, that nothing is computed from. `journal` names a right to
        publish that this charge pays for, after so many `answers` that were paid for before
        (`Budget.rights`).
        """
        reasons = tuple(not_private_because)
        if reasons:
            raise NotAccountedError(f"a ledger takes private fits only: {'; '.join(reasons)}.")
        charge = charge_of(event, neighboring_relation, self._terms)
        text = json.dumps(event.to_dict(), sort_keys=True, allow_nan=False)
        stated = None if delta is None else float(delta)
        facts = {"plan": str(plan), "delta": stated, "note": str(note or self._note)}
        about = json.dumps(facts, sort_keys=True, allow_nan=False)

        def decide(before: Tally) -> Proposal:
            after = before.plus(charge)
            if not after.kept:
                raise BudgetExceededError(_too_little(before, after))
            return str(name), neighboring_relation, charge, text, about

        def also(connection: sqlite3.Connection, entry: Entry) -> None:
            if journal is not None:
                grant(connection, journal, entry.number, answers)

        return self._ledger.append(decide, also)

    @property
    def rights(self) -> Rights:
        """What fits with a journal have published (docs/budget.md, "Journals")."""
        return Rights(self._ledger)

    def entries(self) -> tuple[Entry, ...]:
        """Return all charges, oldest first: public facts only."""
        return tuple(self._ledger.read())

    def shares(self) -> tuple[float, ...]:
        """Return each entry's part of the budget, at the order that has the most left."""
        entries = self._ledger.read()
        tally = Tally.of(self._terms, [entry.charge for entry in entries])
        j, limit = tally.best
        return tuple(float(Fraction(entry.charge.amounts[j], limit)) for entry in entries)

    def receipt(self, entry: Entry) -> Receipt:
        """Return an entry's facts, with its part of the budget, for a model file or a report."""
        return Receipt(
            number=entry.number,
            time=entry.time,
            hash=entry.hash,
            share=float(Tally.of(self._terms, [entry.charge]).share),
            epsilon=self.epsilon,
            delta=self.delta,
            kind=self.kind,
            neighboring_relation=self.neighboring_relation,
            plan=entry.plan,
        )

    def spent(self) -> float:
        """Return the part of the budget that is spent, 0 to 1, rounded up.

        A part of μ² (or of a Rényi divergence), which adds up; ε does not.
        """
        share = self._ledger.tally().share
        return math.nextafter(float(share), 1.0) if share else 0.0

    def remaining(self) -> float:
        """Return the part of the budget that is left, 0 to 1, rounded down."""
        left = 1 - self._ledger.tally().share
        return max(math.nextafter(float(left), 0.0), 0.0) if left < 1 else 1.0

    def largest_epsilon(self, delta: float | None = None) -> float:
        """Return the ε that one more full-batch fit can have at `delta` (the ledger's if None)."""
        return self._ledger.tally().largest_epsilon(self.delta if delta is None else delta)

    def head(self) -> str:
        """Return the last link of the hash chain, to be kept elsewhere (see `verify`)."""
        entries = self.entries()
        return entries[-1].hash if entries else ""

    def verify(self, head: str = "") -> None:
        """Check the file; with a `head` of before, also that all entries up to it are still there.

        This checks the whole chain. It shows a changed, removed or reordered entry. This handle
        also notices if entries that it saw are gone. Only a head kept elsewhere shows that an
        older copy of the file, or one written anew, was put in its place before it was opened.
        """
        if head not in {"", *(entry.hash for entry in self.entries())}:
            msg = (
                f"The ledger {self._path} does not contain this head: it is another ledger, or it "
                "lost entries."
            )
            raise BudgetError(msg)

    def __str__(self) -> str:
        entries = self._ledger.read()
        tally = Tally.of(self._terms, [entry.charge for entry in entries])
        fits = f"{len(entries)} fit{'s' if len(entries) != 1 else ''}"
        return (
            f"Ledger {self._path}: ({self.epsilon:g}, {self.delta:g})-differential privacy under "
            f"{self.neighboring_relation} for all fits charged to it together "
            f"({_kind_in_words(self._terms)}). {_percent(tally.share)} is spent by "
            f"{fits}; one more fit that reads all rows in each step can have epsilon up to "
            f"{_down(tally.largest_epsilon(self.delta))} at delta={self.delta:g}."
        )

    def __repr__(self) -> str:
        return f"Budget({self._path!r})"

    def _repr_html_(self) -> str:
        """Return the ledger for a notebook: what is spent, and by which fits."""
        shares, entries = self.shares(), self.entries()
        facts = [
            ("all fits together", f"ε = {self.epsilon:g}, δ = {self.delta:g}"),
            ("spent", f"{_percent(self._ledger.tally().share)} by {len(entries)} fits"),
            ("one more fit may have", f"ε up to {_down(self.largest_epsilon())}"),
        ]
        lines = (
            f"{entry.time[:16]} {entry.name}: {share:.2%} {entry.note}".rstrip()
            for entry, share in zip(entries, shares, strict=True)
        )
        return facts_in_html(f"Budget {os.path.basename(self._path)}", facts, lines, folded="Fits")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Budget):
            return NotImplemented
        return self._path == other._path and self._terms == other._terms

    def __hash__(self) -> int:
        return hash((self._path, self._terms))

    # A copy that had a tally of its own would lose charges: there is one file, and handles to it.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> tuple[str, LedgerTerms, float, str, Link | None]:
        return self._path, self._terms, self._ledger.timeout, self._note, self._ledger.link

    def __setstate__(self, state: tuple[str, LedgerTerms, float, str, Link | None]) -> None:
        self._path, self._terms, timeout, self._note, link = state
        self._ledger = LedgerFile(self._path, timeout, self._terms, link)


def _checked_timeout(timeout: Any) -> float:
    seconds = float(timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout is {seconds!r}; it must be a number of seconds, 0 or more.")
    return seconds


def _kind_in_words(terms: LedgerTerms) -> str:
    if terms.kind == "gaussian":
        return "kind gaussian: fits that read all rows"
    return f"kind renyi: order {', '.join(f'{order:g}' for order in terms.orders)}"


def _too_little(before: Tally, after: Tally) -> str:
    terms = before.terms
    if after.sampler > terms.sampler_limit:
        return (
            "The ledger has no room left for the error of the normal sampler, because its fits "
            "have drawn too many random numbers; this fit is refused."
        )
    left = before.largest_epsilon(terms.delta)
    return (
        f"The ledger has {_percent(1 - before.share, down=True)} of its budget left, enough for "
        f"one more fit on all rows with epsilon={_down(left)} at delta={terms.delta:g}; this fit "
        f"needs {_percent(after.share - before.share)}."
    )


def _percent(share: Fraction, *, down: bool = False) -> str:
    """Print a share in percent, two digits after the point, to the safe side."""
    hundredths = math.floor(share * 10000) if down else math.ceil(share * 10000)
    return f"{hundredths / 100:g} %"


def _down(value: float) -> str:
    """Print to three digits, rounded down (but for the hair that `largest_epsilon` stays below)."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / unit * (1 + 1e-11)) * unit:.3g}"
