"""`stillspace audit`: attack the claim of a named algorithm, on made-up rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import UsageError, command, out, say

if TYPE_CHECKING:
    from stillspace.audit import AuditReport
    from stillspace.plan import Plan


@command
def audit(
    algorithm: Annotated[str, typer.Argument(help="A private algorithm; a wrong name lists them.")],
    *,
    epsilon: Annotated[float, typer.Option(help="The claim to test, with --delta.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The claim to test, with --epsilon.")] = 1e-5,
    rows: Annotated[int, typer.Option(help="Number of rows of the audited fit.")] = 2000,
    features: Annotated[int, typer.Option(help="Number of columns.")] = 2,
    components: Annotated[int, typer.Option("--components", "-r", help="Of the subspace.")] = 1,
    n_iter: Annotated[int | None, typer.Option(help="Number of iterations.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows a step, if sampled.")] = None,
    sampling: Annotated[
        str | None, typer.Option(help="poisson, without-replacement or with-replacement.")
    ] = None,
    relation: Annotated[
        str, typer.Option(help="replace-one or add-or-remove-one.")
    ] = "replace-one",
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Audit the noise that the paper prints.")
    ] = False,
    default_start: Annotated[
        bool,
        typer.Option(
            "--default-start",
            help="Start as the algorithm does, not at a public subspace that the canaries know.",
        ),
    ] = False,
    adversary: Annotated[
        str, typer.Option(help="white-box, last-iterate or components: what is seen.")
    ] = "white-box",
    bound: Annotated[
        list[str] | None,
        typer.Option(help="trade-off, clopper-pearson, accuracy or one-run; may be repeated."),
    ] = None,
    runs: Annotated[int, typer.Option(help="More runs, a sharper bound.")] = 2000,
    canaries: Annotated[int, typer.Option(help="Coins a run; several need --bound one-run.")] = 1,
    confidence: Annotated[float, typer.Option(help="Of all bounds together.")] = 0.95,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.")] = 1,
    picture: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.png", help="Draw the trade-off.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--json", metavar="FILE.json", help="Write the report.")
    ] = None,
) -> None:
    """Attack a privacy claim and say how much of it an adversary can reach.

    Runs the algorithm many times on one of two made-up neighbouring tables and guesses which. A
    bound above the claim refutes it; one below proves nothing, but near it leaves little room.
    """
    from stillspace._files import check_writable, write_atomically  # noqa: PLC0415

    for path in (picture, report):
        if path is not None:
            check_writable(path)
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
    verdict, *lines = str(found).split("\n")
    say("Verdict:", verdict)
    for line in lines:
        out(line)
    if report is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False)
        write_atomically(report, (text + "\n").encode())
        say("Report:", str(report))
    if picture is not None:
        from stillspace.plots import draw_trade_off  # noqa: PLC0415
        from stillspace.plots._figure import png  # noqa: PLC0415

        write_atomically(picture, png(draw_trade_off(found)))
        say("Picture:", str(picture))


def _plan(
    algorithm: str,
    claim: tuple[float, float],
    shape: tuple[int, int, int],
    relation: str,
    options: dict[str, Any],
    *,
    as_printed: bool,
    default_start: bool,
) -> Plan:
    """Return the plan to attack, started at a public subspace unless asked otherwise."""
    import numpy as np  # noqa: PLC0415

    from stillspace.privacy import RELATIONS  # noqa: PLC0415
    from stillspace.recipes import PRIVATE, Facts, fixed_plan  # noqa: PLC0415

    n, D, r = shape
    epsilon, delta = claim
    if not (1 <= r < D and n >= 2):
        msg = f"An audit needs 1 <= components < features and rows >= 2, got {r}, {D} and {n}."
        raise UsageError(msg)
    if relation not in RELATIONS:
        msg = f"--relation must be one of {', '.join(RELATIONS)}, got {relation!r}."
        raise UsageError(msg)
    if not (0.0 < epsilon < np.inf and 0.0 < delta < 1.0):
        msg = f"A claim needs epsilon > 0 and 0 < delta < 1, got {epsilon} and {delta}."
        raise UsageError(msg)
    calibration: Any = "as-printed" if as_printed else "honest"
    facts = Facts(n, D, r, epsilon, delta, relation, calibration=calibration)
    known = PRIVATE[algorithm].options if algorithm in PRIVATE else ()
    if "start" in known and not default_start:
        options = {**options, "start": np.eye(D)[:r]}
    return fixed_plan(algorithm, facts, **options)
