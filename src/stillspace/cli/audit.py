"""`stillspace audit`: attack the claim of a named algorithm, on made-up rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import UsageError, command, out, say
from stillspace.cli.options import check_count, check_loss, check_relation, check_shape

if TYPE_CHECKING:
    from stillspace.audit import AuditReport
    from stillspace.plans.protocol import AnyPlan


# The options, in the order of --help.
_Algorithm = Annotated[str, typer.Argument(help="A private algorithm; a wrong name lists them.")]
_Epsilon = Annotated[float, typer.Option(help="The claim to test, with --delta.")]
_Delta = Annotated[float, typer.Option(help="The claim to test, with --epsilon.")]
_Rows = Annotated[int, typer.Option(help="Number of rows of the audited fit.")]
_Features = Annotated[int, typer.Option(help="Number of columns.")]
_Components = Annotated[int, typer.Option("--components", "-r", help="Of the subspace.")]
_NIter = Annotated[int | None, typer.Option(help="Number of iterations.")]
_BatchSize = Annotated[int | None, typer.Option(help="Rows a step, if sampled.")]
_Sampling = Annotated[
    str | None,
    typer.Option(
        help="poisson, without-replacement or with-replacement (loosely bounded: more noise)."
    ),
]
_Relation = Annotated[str, typer.Option(help="replace-one or add-or-remove-one.")]
_AsPrinted = Annotated[
    bool, typer.Option("--as-printed", help="Audit the noise that the paper prints.")
]
_DefaultStart = Annotated[
    bool,
    typer.Option(
        "--default-start",
        help="Start as the algorithm does, not at a public subspace that the canaries know.",
    ),
]
_Adversary = Annotated[
    str, typer.Option(help="white-box, last-iterate or components: what is seen.")
]
_Bound = Annotated[
    list[str] | None,
    typer.Option(help="trade-off, clopper-pearson, accuracy or one-run; may be repeated."),
]
_Runs = Annotated[int, typer.Option(help="More runs, a sharper bound.")]
_Canaries = Annotated[int, typer.Option(help="Coins a run; several need --bound one-run.")]
_Confidence = Annotated[float, typer.Option(help="Of all bounds together.")]
_Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes.")]
_Picture = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE.png", help="Draw the trade-off.")
]
_Report = Annotated[
    Path | None, typer.Option("--json", metavar="FILE.json", help="Write the report.")
]


@command
def audit(
    algorithm: _Algorithm,
    *,
    epsilon: _Epsilon = 1.0,
    delta: _Delta = 1e-5,
    rows: _Rows = 2000,
    features: _Features = 2,
    components: _Components = 1,
    n_iter: _NIter = None,
    batch_size: _BatchSize = None,
    sampling: _Sampling = None,
    relation: _Relation = "replace-one",
    as_printed: _AsPrinted = False,
    default_start: _DefaultStart = False,
    adversary: _Adversary = "white-box",
    bound: _Bound = None,
    runs: _Runs = 2000,
    canaries: _Canaries = 1,
    confidence: _Confidence = 0.95,
    jobs: _Jobs = 1,
    picture: _Picture = None,
    report: _Report = None,
) -> None:
    """Attack a privacy claim and say how much of it an adversary can reach.

    Runs the algorithm many times on one of two made-up neighbouring tables and guesses which. A
    bound above the claim refutes it; one below proves nothing, but near it leaves little room.
    """
    check_shape(rows, features, components)
    check_loss(epsilon, delta)
    check_relation(relation)
    for name, count in (("--n-iter", n_iter), ("--batch-size", batch_size), ("--runs", runs)):
        check_count(name, count)
    _check_writable(picture, report)
    plan = _plan(
        algorithm,
        (epsilon, delta),
        (rows, features, components),
        relation,
        {"n_iter": n_iter, "batch_size": batch_size, "sampling": sampling},
        as_printed=as_printed,
        default_start=default_start,
    )
    from stillspace.audit import audit as attack  # noqa: PLC0415  (--help need not wait)

    claim: dict[str, Any] = {"claim": (epsilon, delta)} if as_printed else {"delta": delta}
    out(f"Running {algorithm} {runs} times …")
    found: AuditReport = attack(
        plan,
        **claim,
        adversary=adversary,  # type: ignore[arg-type]
        bounds=bound or None,  # type: ignore[arg-type]
        runs=runs,
        canaries=canaries,
        confidence=confidence,
        n_jobs=jobs,
    )
    _say_verdict(found)
    if report is not None:
        _write_report(found, report)
    if picture is not None:
        _draw(found, picture)


def _check_writable(*paths: Path | None) -> None:
    """Refuse what could not be written in the end, before the long run."""
    from stillspace._files import check_writable  # noqa: PLC0415

    for path in paths:
        if path is not None:
            check_writable(path)


def _say_verdict(found: AuditReport) -> None:
    verdict, *lines = str(found).split("\n")
    say("Verdict:", verdict)
    for line in lines:
        out(line)


def _write_report(found: AuditReport, path: Path) -> None:
    from stillspace._files import write_atomically  # noqa: PLC0415

    text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())
    say("Report:", str(path))


def _draw(found: AuditReport, path: Path) -> None:
    from stillspace._files import write_atomically  # noqa: PLC0415
    from stillspace.plots import draw_trade_off  # noqa: PLC0415
    from stillspace.plots._figure import png  # noqa: PLC0415

    write_atomically(path, png(draw_trade_off(found)))
    say("Picture:", str(path))


def _plan(
    algorithm: str,
    claim: tuple[float, float],
    shape: tuple[int, int, int],
    relation: Any,
    options: dict[str, Any],
    *,
    as_printed: bool,
    default_start: bool,
) -> AnyPlan:
    """Return the plan to attack, started at a public subspace unless asked otherwise."""
    import numpy as np  # noqa: PLC0415

    from stillspace.recipes import PRIVATE, Facts, make_plan  # noqa: PLC0415

    n, D, r = shape
    epsilon, delta = claim
    calibration: Any = "as-printed" if as_printed else "honest"
    facts = Facts(n, D, r, epsilon, delta, relation, calibration=calibration)
    known = PRIVATE[algorithm].options if algorithm in PRIVATE else ()
    if "start" in known and not default_start:
        options = {**options, "start": np.eye(D)[:r]}
    plan = make_plan(algorithm, facts, **options)
    if next(plan.releases(), None) is None:
        msg = "An audit sees Gaussian releases; 'ptr' has none: audit it as a function in Python."
        raise UsageError(msg)
    return plan
