"""`stillspace audit`: attack the claim of a named algorithm or of a model, on made-up rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stillspace.cli.console import UsageError, command, out, out_json, progress, say
from stillspace.cli.options import check_count, check_loss, check_relation, check_shape

if TYPE_CHECKING:
    from stillspace.audit import AuditReport
    from stillspace.plans.protocol import AnyPlan


# The options, in the order of --help.
_Target = Annotated[
    str,
    typer.Argument(
        metavar="ALGORITHM|MODEL.npz",
        help="A private algorithm (a wrong name lists them), or a model file, whose plan is run.",
    ),
]
_Epsilon = Annotated[float | None, typer.Option(help="The claim to test. Default 1.")]
_Delta = Annotated[float | None, typer.Option(help="The claim to test. Default 1e-5.")]
_Rows = Annotated[int | None, typer.Option(help="Rows of the audited fit. Default 2000.")]
_Features = Annotated[int | None, typer.Option(help="Number of columns. Default 2.")]
_Components = Annotated[
    int | None, typer.Option("--components", "-r", help="Of the subspace. Default 1.")
]
_NIter = Annotated[int | None, typer.Option(help="Number of iterations.")]
_BatchSize = Annotated[int | None, typer.Option(help="Rows per step, if sampled.")]
_Sampling = Annotated[
    str | None,
    typer.Option(
        help="poisson, without-replacement or with-replacement (loosely bounded: more noise)."
    ),
]
_Relation = Annotated[
    str | None, typer.Option(help="replace-one (the default) or add-or-remove-one.")
]
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
_Runs = Annotated[
    int | None,
    typer.Option(help="More runs, a sharper bound. Default 2000; 400 for a model."),
]
_Canaries = Annotated[int, typer.Option(help="Coins per run; several need --bound one-run.")]
_Confidence = Annotated[float, typer.Option(help="Of all bounds together.")]
_Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes.")]
_Picture = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FILE.png", help="Draw the trade-off.")
]
_Report = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE.json", help="Write the report; - prints it."),
]
_Key = Annotated[
    Path | None, typer.Option("--key", metavar="KEY", help="Check the model's signature.")
]


@command
def audit(
    target: _Target,
    *,
    epsilon: _Epsilon = None,
    delta: _Delta = None,
    rows: _Rows = None,
    features: _Features = None,
    components: _Components = None,
    n_iter: _NIter = None,
    batch_size: _BatchSize = None,
    sampling: _Sampling = None,
    relation: _Relation = None,
    as_printed: _AsPrinted = False,
    default_start: _DefaultStart = False,
    adversary: _Adversary = "white-box",
    bound: _Bound = None,
    runs: _Runs = None,
    canaries: _Canaries = 1,
    confidence: _Confidence = 0.95,
    jobs: _Jobs = 1,
    picture: _Picture = None,
    report: _Report = None,
    key: _Key = None,
) -> None:
    """Attack a privacy claim and say how much of it an adversary can reach.

    Runs the algorithm many times on one of two made-up neighbouring tables and guesses which. A
    bound above the claim refutes it; one below proves nothing, but near it leaves little room.
    Of a model file the plan is run, on made-up rows: the rows of the fit are not needed.

    \b
    Examples:
      stillspace audit dp-ggd --epsilon 1 --runs 1000
      stillspace audit model.npz --json audit.json
    """
    facts = {
        "epsilon": epsilon, "delta": delta, "rows": rows, "features": features,
        "components": components, "n_iter": n_iter, "batch_size": batch_size,
        "sampling": sampling, "relation": relation,
    }  # fmt: skip
    check_count("--runs", runs)
    printed = report is not None and str(report) == "-"
    _check_writable(picture, None if printed else report)
    if target.endswith(".npz"):
        plan, claim = _of_model(Path(target), key, facts, as_printed or default_start)
    else:
        plan, claim = _of_algorithm(target, facts, as_printed, default_start, key)
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
        _say_verdict(found)
        if report is not None:
            _write_report(found, report)
    if picture is not None:
        _draw(found, picture)


def _of_algorithm(
    name: str, facts: dict[str, Any], as_printed: bool, default_start: bool, key: Path | None
) -> tuple[AnyPlan, dict[str, Any]]:
    """Return the plan of a named algorithm, and the claim to test."""
    if key is not None:
        msg = "--key checks the signature of a model file; a named algorithm has none."
        raise UsageError(msg)
    usual = {"epsilon": 1.0, "delta": 1e-5, "rows": 2000, "features": 2, "components": 1}
    known = {**facts, **{k: v for k, v in usual.items() if facts[k] is None}}
    relation = facts["relation"] or "replace-one"
    shape = known["rows"], known["features"], known["components"]
    claim = known["epsilon"], known["delta"]
    check_shape(*shape)
    check_loss(*claim)
    check_relation(relation)
    check_count("--n-iter", facts["n_iter"])
    check_count("--batch-size", facts["batch_size"])
    options = {k: facts[k] for k in ("n_iter", "batch_size", "sampling")}
    plan = _plan(
        name, claim, shape, relation, options, as_printed=as_printed, default_start=default_start
    )
    return plan, {"claim": claim} if as_printed else {"delta": known["delta"]}


def _of_model(
    path: Path, key: Path | None, facts: dict[str, Any], changed: bool
) -> tuple[AnyPlan, dict[str, Any]]:
    """Return the plan of a model file, and its guarantee as the claim to test."""
    if changed or any(value is not None for value in facts.values()):
        msg = (
            "A model file brings its own plan and claim: leave out --epsilon, --delta, --rows, "
            "--features, --components, --n-iter, --batch-size, --sampling, --relation, "
            "--as-printed and --default-start."
        )
        raise UsageError(msg)
    from stillspace.cli.show import loaded  # noqa: PLC0415

    model: Any = loaded(path, key)
    if not model.privacy_.private:
        msg = f"{path} promises no privacy, so that there is no claim to attack."
        raise UsageError(msg)
    if getattr(model, "plan_", None) is None:
        msg = f"{path} holds no plan (format 2, or parts of your own); fit it again to audit it."
        raise UsageError(msg)
    return _with_releases(model.plan_), {"claim": model.privacy_}


def _with_releases(plan: AnyPlan) -> AnyPlan:
    if next(plan.releases(), None) is None:
        msg = "An audit sees Gaussian releases; 'ptr' has none: audit it as a function in Python."
        raise UsageError(msg)
    return plan


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
    if "start" in known and algorithm != "dp-pca" and not default_start:
        options = {**options, "start": np.eye(D)[:r]}
    return _with_releases(make_plan(algorithm, facts, **options))
