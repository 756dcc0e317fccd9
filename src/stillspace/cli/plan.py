"""`stillspace plan`: what a budget buys, before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from stillspace._checks import checked_bytes
from stillspace.cli.console import command, out_json, save, say
from stillspace.cli.options import JsonFlag, check_loss, check_relation, check_shape


@dataclass(frozen=True)
class GuessOptions:
    """Options with the names that parameters of `predict` have."""

    delta: Annotated[float | None, typer.Option(help="Default: min(n^-1.5, 1e-6).")] = None
    relation: Annotated[str, typer.Option(help="replace-one or add-or-remove-one.")] = "replace-one"
    inlier_share: Annotated[
        float, typer.Option(help="Your guess of the share of inliers: rows near the subspace.")
    ] = 0.7
    inlier_noise: Annotated[
        float,
        typer.Option(
            help="Your guess of how far inliers lie off the subspace, relative to their length."
        ),
    ] = 0.1
    inlier_anisotropy: Annotated[
        float,
        typer.Option(
            help="Your guess of the largest over the smallest standard deviation of inliers within "
            "the subspace: the weakest direction dominates the error."
        ),
    ] = 1.0
    known_units: Annotated[
        bool,
        typer.Option(
            "--known-units",
            help="You will give --center and --scale, so no budget is spent on them.",
        ),
    ] = False


@command
def plan(
    *,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows.")],
    features: Annotated[int, typer.Option("--features", "-d", help="Number of columns.")],
    components: Annotated[
        int, typer.Option("--components", "-r", help="Dimension of the subspace.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss to spend.")],
    guesses: GuessOptions,
    memory: Annotated[
        str,
        typer.Option(help="Memory for the fit, such as 1GB: it limits the sketch of wide rows."),
    ] = "1GB",
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Plot the error over ε and over rows.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the plan of a private fit and the error to expect, and say if the budget is too small.

    \b
    Example:
      stillspace plan --rows 5000 --features 20 --components 2 --epsilon 1
    """
    check_shape(rows, features, components)
    check_loss(epsilon, guesses.delta)
    check_relation(guesses.relation)
    # Only here: SciPy takes a while to import, and --help need not wait for it.
    from stillspace.prediction import predict  # noqa: PLC0415
    from stillspace.recipes import Facts, make_plan  # noqa: PLC0415

    shape, relation = (rows, features, components), guesses.relation
    found = predict(*shape, epsilon=epsilon, **vars(guesses))
    facts = Facts(*shape, epsilon, found.delta, relation)  # type: ignore[arg-type]
    made = make_plan("auto", facts)
    if as_json:
        words = {"plan": made.in_words(), "useful": found.useful, "in_words": str(found)}
        numbers = {"error": found.error, "kappa": found.kappa, "private_pca_error": found.pca_error}
        out_json({**words, **numbers, "epsilon": epsilon, "delta": found.delta})
        return
    say("Plan:", made.in_words())
    say("Centre and scale:", found.units_in_words)
    say("Expected:", str(found))
    say(
        "Without outliers:",
        f"private PCA alone would have d² ≈ {found.pca_error:.2g}; outliers add a bias to it "
        "that no budget removes.",
    )
    if rows < features:
        say("Sketch:", _sketch_in_words(rows, epsilon, found.delta, memory))
    if picture is not None:
        from stillspace.plots import draw_expected_error  # noqa: PLC0415
        from stillspace.plots._figure import png  # noqa: PLC0415

        save("Picture:", picture, png(draw_expected_error(found)))


def _sketch_in_words(rows: int, epsilon: float, delta: float, memory: str) -> str:
    """Return to how many columns a fit projects wide rows, and what a limit on memory costs."""
    from stillspace.estimators._planning import auto_width, too_narrow, widest  # noqa: PLC0415
    from stillspace.privacy import mu_from_budget  # noqa: PLC0415

    width = auto_width(rows, mu_from_budget(epsilon, delta))
    limit = widest(checked_bytes("--memory", memory))
    if limit < width:
        return too_narrow(width, limit)
    return f"sketch='auto' takes {width} columns, if that is at most half of the features."
