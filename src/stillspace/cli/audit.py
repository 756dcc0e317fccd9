"""`stillspace audit`: attack the claim of a named algorithm or of a model, on made-up rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace._files import check_writable
from stillspace.cli.console import command, json_text, out_json, progress, save, say_list
from stillspace.cli.options import CheckKey, check_count, check_loss, check_relation, check_shape

if TYPE_CHECKING:
    from stillspace.audit import AuditReport
    from stillspace.plans.protocol import AnyPlan


@dataclass(frozen=True)
class ClaimOptions:
    """Options that say which fit of a named algorithm is audited; a model file brings its own."""

    epsilon: Annotated[float | None, typer.Option(help="The claim to test. Default 1.")] = None
    delta: Annotated[float | None, typer.Option(help="The claim to test. Default 1e-5.")] = None
    rows: Annotated[int | None, typer.Option(help="Rows of the audited fit. Default 2000.")] = None
    features: Annotated[int | None, typer.Option(help="Number of columns. Default 2.")] = None
    components: Annotated[
        int | None, typer.Option("--components", "-r", help="Dimension of the subspace. Default 1.")
    ] = None
    n_iter: Annotated[int | None, typer.Option(help="Number of iterations.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Rows per step, if sampled.")] = None
    sampling: Annotated[
        str | None,
        typer.Option(
            help="poisson, without-replacement or with-replacement (loosely bounded: more noise)."
        ),
    ] = None
    relation: Annotated[
        str | None, typer.Option(help="replace-one (the default) or add-or-remove-one.")
    ] = None
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Audit the noise that the paper prints.")
    ] = False
    default_start: Annotated[
        bool,
        typer.Option(
            "--default-start",
            help="Start as the algorithm does, not at a public subspace that the canaries know.",
        ),
    ] = False


@command
def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="ALGORITHM|MODEL.npz",
            help="A private algorithm (a wrong name lists them), or a model file, whose plan is "
            "run.",
        ),
    ],
    *,
    options: ClaimOptions,
    adversary: Annotated[
        str, typer.Option(help="What the attacker sees: white-box, last-iterate or components.")
    ] = "white-box",
    bound: Annotated[
        list[str] | None,
        typer.Option(help="trade-off, clopper-pearson, accuracy or one-run; may be repeated."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(
            help="Number of runs; more give a sharper bound. Default 2000, 400 for a model."
        ),
    ] = None,
    canaries: Annotated[int, typer.Option(help="Coins per run; several need --bound one-run.")] = 1,
    confidence: Annotated[
        float, typer.Option(help="Confidence level of all bounds together.")
    ] = 0.95,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Number of processes.")] = 1,
    picture: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.png", help="Draw the trade-off.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE.json", help="Write the report; - prints it."),
    ] = None,
    key: CheckKey = None,
) -> None:
    """Attack a private algorithm, and print the largest epsilon that the attack can prove.

    The audit runs the algorithm many times on one of two simulated neighbouring tables, and guesses
    which table it was. A bound above the claim refutes the claim. A bound below the claim proves
    nothing, but a bound near the claim shows that the claim is nearly tight. For a model file, the
    audit runs the stored plan on simulated rows; the rows of the fit are not needed.

    \b
    Examples:
      stillspace audit dp-ggd --epsilon 1 --runs 1000
      stillspace audit model.npz --json audit.json
    """
    check_count("--runs", runs)
    printed = report is not None and str(report) == "-"
    for path in (picture, None if printed else report):
        if path is not None:
            check_writable(path)
    if target.endswith(".npz"):
        plan, claim = _of_model(Path(target), key, options)
    else:
        plan, claim = _of_algorithm(target, options, key)
    if next(plan.releases(), None) is None:
        msg = "An audit needs Gaussian releases; 'ptr' has none. Audit it as a function in Python."
        raise ValueError(msg)
    from stillspace.audit import audit as attack  # noqa: PLC0415  (--help need not wait)

    runs = runs or (400 if target.endswith(".npz") else 2000)
    with progress(f"Running {Path(target).name} {runs} times") as advance:
        found: AuditReport = attack(
            plan,
            **claim,
            adversary=adversary,  # type: ignore[arg-type]
            bounds=bound or None,  # type: ignore[arg-type]
            runs=runs,
            canaries=canaries,
            confidence=confidence,
            n_jobs=jobs,
            progress=advance,
        )
    if printed:
        out_json(found.to_dict())
    else:
        say_list("Verdict:", str(found))
        if report is not None:
            save("Report:", report, json_text(found.to_dict()).encode())
    if picture is not None:
        from stillspace.plots import draw_trade_off  # noqa: PLC0415
        from stillspace.plots._figure import png  # noqa: PLC0415

        save("Picture:", picture, png(draw_trade_off(found)))


def _of_algorithm(
    name: str, options: ClaimOptions, key: Path | None
) -> tuple[AnyPlan, dict[str, Any]]:
    """Return the plan of a named algorithm, started at a public subspace, and the claim to test."""
    if key is not None:
        raise ValueError("--key checks the signature of a model file; a named algorithm has none.")
    usual = {
        "epsilon": 1.0, "delta": 1e-5, "rows": 2000, "features": 2, "components": 1,
        "relation": "replace-one",
    }  # fmt: skip
    known = vars(options) | {k: v for k, v in usual.items() if vars(options)[k] is None}
    n, D, r = known["rows"], known["features"], known["components"]
    epsilon, delta, relation = known["epsilon"], known["delta"], known["relation"]
    check_shape(n, D, r)
    check_loss(epsilon, delta)
    check_relation(relation)
    check_count("--n-iter", options.n_iter)
    check_count("--batch-size", options.batch_size)
    import numpy as np  # noqa: PLC0415

    from stillspace.recipes import PRIVATE, Facts, make_plan  # noqa: PLC0415

    calibration: Any = "as-printed" if options.as_printed else "honest"
    facts = Facts(n, D, r, epsilon, delta, relation, calibration=calibration)
    given = {k: known[k] for k in ("n_iter", "batch_size", "sampling")}
    takes_start = name in PRIVATE and "start" in PRIVATE[name].options and name != "dp-pca"
    if takes_start and not options.default_start:
        given["start"] = np.eye(D)[:r]
    claim = {"claim": (epsilon, delta)} if options.as_printed else {"delta": delta}
    return make_plan(name, facts, **given), claim


def _of_model(
    path: Path, key: Path | None, options: ClaimOptions
) -> tuple[AnyPlan, dict[str, Any]]:
    """Return the plan of a model file, and its guarantee as the claim to test."""
    if options != ClaimOptions():
        names = ", ".join(f"--{name.replace('_', '-')}" for name in vars(options))
        raise ValueError(f"A model file brings its own plan and claim: leave out {names}.")
    from stillspace.cli.show import loaded  # noqa: PLC0415

    model: Any = loaded(path, key)
    if not model.privacy_.private:
        raise ValueError(f"{path} is not a private model, so there is no claim to audit.")
    if getattr(model, "plan_", None) is None:
        msg = (
            f"{path} holds no plan (an earlier version, or custom parts); fit it again to audit it."
        )
        raise ValueError(msg)
    return model.plan_, {"claim": model.privacy_}
