"""The sections about the promise. Each is a function of released numbers and public facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, floor, isfinite, log10
from typing import Any

from stillspace.plans.fixed import fingerprint
from stillspace.privacy import Budget, Guarantee
from stillspace.privacy.guarantee import LEAD_IN, number_up
from stillspace.report import pictures
from stillspace.report.html import Child, Html, join, listed, paragraph, rows, section, tag

PRIORS = (0.001, 0.01, 0.1, 0.5)
SLACK = 10.0 / 9.0
TAIL = 20.0
"""With P(L > ε + t) ≤ δ(ε) / (1 − e^(−t)) at e^t = 10/9: odds change by at most 10/9 · e^ε, except
with probability 10 δ to either side. L is the logarithm by which a result changes the odds."""
_NOT_COVERED = "not covered: "
_MOST_ENTRIES = 12


def heading(model: Any) -> Html:
    """Say what this is and where it comes from."""
    origin = model.file_
    facts: list[list[Child]] = [
        ["Privacy loss", _loss(model.privacy_)],
        ["Model", f"{type(model).__name__}, {_shape(model)}"],
        ["Written", _when(origin.written) or "the file has no date (format 2)"],
        ["Software", f"stillspace {origin.version}"],
        ["Checksum", tag("code", origin.sha256 or "none (format 2)")],
        ["Signature", _SIGNATURES[origin.signature]],
    ]
    body = [tag("tr", tag("th", f[0], scope="row"), tag("td", f[1])) for f in facts]
    return tag(
        "header",
        tag("h1", "Privacy report"),
        tag("table", tag("tbody", *body), class_="facts"),
    )


_SIGNATURES = {
    "": "none. The file itself does not show who wrote it: ask the sender, or for a signed file.",
    "not checked": "present, but no key was given to check it.",
    "checked": "made with the given key. Somebody who has the key wrote this file, and nobody "
    "changed it since.",
}


def _loss(promised: Guarantee) -> str:
    if not promised.private:
        return "not limited: this model has no guarantee"
    assert promised.delta is not None
    return f"ε = {number_up(promised.epsilon)}, δ = {_chance(promised.delta)}"


def _chance(probability: float) -> str:
    """Return a probability as a number and as "1 in …", neither of them too small."""
    number = number_up(probability)
    if not 0.0 < probability < 0.01:
        return number
    odds = 1.0 / float(number)
    unit = 10.0 ** (floor(log10(odds)) - 1)
    return f"{number} (about 1 in {floor(odds / unit * (1 + 1e-9)) * unit:,.0f})"


def _when(written: str) -> str:
    """Return the date of a file for people: without seconds' fractions, and with its zone."""
    return written[:16].replace("T", " ") + " UTC" if written.endswith("+00:00") else written


def _shape(model: Any) -> str:
    r, width = model.components_.shape
    where = f"{model.n_features_in_} columns"
    if model.sketch_ is not None:
        where += f", seen through a public projection to {width}"
    return f"{r} component{'s' if r > 1 else ''} of {where}"


def what_was_done(model: Any) -> Html:
    """Say in words what was computed, and why it protects people."""
    r = len(model.components_)
    many = f"{r} directions" if r > 1 else "one direction"
    parts = [
        paragraph(
            f"A table with {_rows_of_a_person(model.privacy_)} was summarised by {many}. A "
            "direction is a combination of columns along which the rows differ most. These "
            "directions and the numbers in this report are published. No row is published.",
        )
    ]
    if model.privacy_.private:
        parts.append(
            paragraph(
                "Random noise was added to every number that was computed from the rows, before "
                "the number was used or published. The noise is large enough to hide any one "
                "person: the published numbers would be almost as likely if that person's data "
                "had been different. This stays true whatever other data somebody has, and "
                "whatever is done with the published numbers later.",
            )
        )
    plan = getattr(model, "plan_", None)
    words = model.plan_text_ if plan is None else plan.in_words()
    parts.append(tag("details", tag("summary", "The method, for specialists"), paragraph(words)))
    return section("What was done", *parts)


def _rows_of_a_person(promised: Guarantee) -> str:
    k = promised.event.rows_per_person
    return "one row per person" if k == 1 else f"at most {k} rows per person"


def guarantee(model: Any) -> Html:
    """State the guarantee in one sentence, and the curve behind it."""
    promised: Guarantee = model.privacy_
    if not promised.private:
        reasons = "; ".join(promised.not_private_because) or "no reason was recorded"
        return section(
            "The guarantee",
            paragraph(
                tag("strong", "There is none. "),
                f"This model promises no privacy: {reasons}. Treat it as personal data.",
                class_="warning",
            ),
        )
    formal = str(promised).split("\n", maxsplit=1)[0]
    formal = formal.removesuffix(LEAD_IN).strip()
    return section(
        "The guarantee",
        tag(
            "div",
            tag(
                "div",
                paragraph(*_in_words(promised)),
                paragraph(tag("span", "For specialists: ", class_="quiet"), formal),
            ),
            tag("figure", _curve(promised), tag("figcaption", _CURVE)),
            class_="beside",
        ),
    )


def _in_words(promised: Guarantee) -> tuple[Child, ...]:
    """Return what (ε, δ) says, for a reader who does not know the symbols."""
    assert promised.delta is not None
    factor = number_up(exp(min(promised.epsilon, 700.0)))
    return (
        "Compare two cases: the data as they are, and the same data with one person's part "
        "changed. ",
        tag("strong", f"The probability of any result differs by at most a factor of {factor}"),
        f", plus {_chance(promised.delta)}. The factor is e^ε. The small number that is added is "
        "called δ.",
    )


_CURVE = (
    "Every point of this curve is a guarantee, and all of them hold at the same time. Smaller "
    "values are more private. The dot is the pair that this report states."
)


def _curve(promised: Guarantee) -> Html:
    assert promised.delta is not None
    epsilon = promised.epsilon
    right = max(1.6 * epsilon, 1e-3)
    epsilons = [right * k / 32 for k in range(33)]
    deltas = [promised.get_delta(value) for value in epsilons]
    return pictures.epsilon_delta(epsilons, deltas, (epsilon, promised.delta))


def for_one_person(model: Any) -> Html | None:
    """Say what the guarantee means for one person: odds before and after."""
    promised: Guarantee = model.privacy_
    if not promised.private:
        return None
    assert promised.delta is not None
    factor = SLACK * exp(min(promised.epsilon, 700.0))
    lines: list[list[Child]] = []
    for prior in PRIORS:
        low = prior / (prior + (1 - prior) * factor)
        high = prior * factor / (prior * factor + 1 - prior)
        lines.append([_percent(prior), _percent(low), _percent(high)])
    right = 50.0 * (1.0 + min(promised.get_delta(0.0), 1.0))
    return section(
        "What it means for one person",
        paragraph(
            "Suppose that somebody believes something about one person before seeing this "
            "result, and even knows the data of all other people. The result can change that "
            "belief only as far as this table says "
            f"(except with a probability of at most {TAIL * promised.delta:.1g}):",
        ),
        rows(
            ["Belief before", "Lowest belief after", "Highest belief after"],
            lines,
            caption="How far the result can move a belief about one person",
        ),
        paragraph(
            "Somebody who must guess between two possibilities that are equally likely before "
            f"guesses right in at most {right:.1f} % of all cases. Blind guessing gives 50 %. "
            "Facts about people in general, such as that two columns rise together, are not "
            "limited: they would be learned without this person, too.",
        ),
    )


def _percent(value: float) -> str:
    return f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.3g} %"


def checklist(model: Any) -> Html | None:
    """List what the guarantee rests on and what it leaves out, to tick and to sign."""
    promised: Guarantee = model.privacy_
    if not promised.private:
        return None
    left_out = [a.removeprefix(_NOT_COVERED) for a in promised.assumptions if _NOT_COVERED in a]
    rests_on = [a for a in promised.assumptions if _NOT_COVERED not in a]
    boxes = [
        tag("li", tag("label", tag("input", type="checkbox"), tag("span", _sentence(text))))
        for text in rests_on
    ]
    lines = [tag("span", word, class_="line") for word in ("Name", "Place and date", "Signature")]
    return section(
        "To check and to sign",
        paragraph("The guarantee holds if all of these statements are true:"),
        tag("ul", *boxes, class_="boxes"),
        paragraph("The guarantee does not cover:"),
        listed([_sentence(text) for text in left_out]),
        paragraph(*lines, class_="signature"),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def ledger(model: Any, budget: Budget | None) -> Html:
    """Say what was charged to a ledger, and what is left of it."""
    receipt = getattr(model, "receipt_", None)
    alone = (
        "This fit was not charged to a ledger. The privacy losses of several fits on the same "
        "people add up. This page cannot say how many other fits there were."
    )
    parts = [paragraph(alone if receipt is None else f"This fit is {receipt}.")]
    if budget is not None:
        entries, shares = budget.entries(), budget.shares()
        if receipt is not None and receipt.hash not in {entry.hash for entry in entries}:
            msg = "This ledger does not hold the entry of this model; give the ledger of the fit."
            raise ValueError(msg)
        parts.append(_entries(budget, list(zip(entries, shares, strict=True))))
    return section("Privacy budget", *parts)


def _entries(budget: Budget, charged: Sequence[tuple[Any, float]]) -> Html:
    body: list[list[Child]] = [
        [str(entry.number), entry.time[:19], entry.name, entry.note, f"{100 * share:.3g} %"]
        for entry, share in charged[-_MOST_ENTRIES:]
    ]
    more = len(charged) - len(body)
    older = f"; {more} older entries not shown" if more else ""
    caption = (
        f"Ledger of epsilon = {budget.epsilon:g}, delta = {budget.delta:g}: "
        f"{100 * budget.spent():.3g} % spent{older}"
    )
    return rows(["Fit", "Time (UTC)", "Algorithm", "Note", "Part"], body, caption=caption)


def audit(found: Mapping[str, Any] | None, model: Any) -> Html:
    """Say what an attack on the claim found."""
    if found is None:
        return section(
            "What an audit found",
            paragraph(
                "No audit is attached. An audit runs the same plan many times on simulated data, "
                "and tries to find out from the result which data one person had. To add one, run ",
                tag("code", "stillspace audit MODEL --json audit.json"),
                " and then ",
                tag("code", "stillspace report MODEL --audit audit.json"),
                ".",
            ),
        )
    plan = getattr(model, "plan_", None)
    if plan is None or found.get("plan") != fingerprint(plan):
        msg = "The audit is not one of this model's plan; run stillspace audit on this model file."
        raise ValueError(msg)
    facts = [
        f"Adversary: {found['adversary']}; data sets: {found['neighbours']}.",
        f"{found['runs']} runs, {found['coins']} guesses, confidence {found['confidence']:.0%}.",
    ]
    strong = tag("strong" if found["refuted"] else "span", str(found["verdict"]))
    return section("What an audit found", paragraph(strong), listed(facts))


def reproduction(model: Any) -> Html:
    """Say how each number here can be computed again."""
    plan = getattr(model, "plan_", None)
    facts = [
        _step("Install this version: ", f"pip install stillspace=={model.file_.version}"),
        _step("Check the file, and compute ε again: ", "stillspace show MODEL"),
        _step("Attack the claim: ", "stillspace audit MODEL"),
        Html(
            "The noise cannot be drawn again: its key was never stored. A new fit on the same rows "
            "gives other numbers and costs privacy again."
        ),
    ]
    if plan is not None:
        facts.append(_step("Fingerprint of the plan: ", fingerprint(plan)))
    promised = model.privacy_
    if promised.delta is not None and isfinite(promised.epsilon):
        facts.append(
            join([Html("ε was computed by the accountant "), tag("q", promised.accountant)])
        )
    return section("How to reproduce this", listed(facts))


def _step(text: str, command: str) -> Html:
    return join([Html(text), tag("code", command)])
