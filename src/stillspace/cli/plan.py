"""`stillspace plan`: what a budget buys, before any row is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stillspace.cli.console import command, out_json, say
from stillspace.cli.options import check_loss, check_relation, check_shape


@command
def plan(
    *,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows.")],
    features: Annotated[int, typer.Option("--features", "-d", help="Number of columns.")],
    components: Annotated[
        int, typer.Option("--components", "-r", help="Dimension of the subspace.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss to spend.")],
    delta: Annotated[float | None, typer.Option(help="Default: min(n^-1.5, 1e-6).")] = None,
    relation: Annotated[
        str, typer.Option(help="replace-one or add-or-remove-one.")
    ] = "replace-one",
    inlier_share: Annotated[
        float, typer.Option(help="Your guess of the share of rows near the subspace.")
    ] = 0.7,
    inlier_noise: Annotated[
        float,
        typer.Option(help="Your guess of how far these are off it, relative to their length."),
    ] = 0.1,
    inlier_anisotropy: Annotated[
        float,
        typer.Option(
            help="Your guess of the largest over the smallest standard deviation of these within "
            "the subspace: the weakest direction dominates the error."
        ),
    ] = 1.0,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the error over ε and over rows.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")] = False,
) -> None:
    """Show the plan of a private fit and the error to expect; say when a budget is hopeless.

    \b
    Example:
      stillspace plan --rows 5000 --features 20 --components 2 --epsilon 1
    """
    check_shape(rows, features, components)
    check_loss(epsilon, delta)
    check_relation(relation)
    # Only here: SciPy takes a while to import, and --help need not wait for it.
    from stillspace.prediction import predict  # noqa: PLC0415
    from stillspace.recipes import Facts, make_plan  # noqa: PLC0415

    facts: dict[str, Any] = {"relation": relation}
    found = predict(
        rows,
        features,
        components,
        epsilon=epsilon,
        delta=delta,
        inlier_share=inlier_share,
        inlier_noise=inlier_noise,
        inlier_anisotropy=inlier_anisotropy,
        **facts,
    )
    made = make_plan("auto", Facts(rows, features, components, epsilon, found.delta, **facts))
    if as_json:
        facts_of_it = {"plan": made.in_words(), "useful": found.useful, "in_words": str(found)}
        numbers = {"error": found.error, "kappa": found.kappa, "private_pca_error": found.pca_error}
        out_json({**facts_of_it, **numbers, "epsilon": epsilon, "delta": found.delta})
        return
    say("Plan:", made.in_words())
    say("Expected:", str(found))
    say(
        "Without outliers:",
        f"plain private PCA would have d² ≈ {found.pca_error:.2g}; outliers add a bias to it "
        "that no budget removes.",
    )
    if picture is not None:
        from stillspace._files import write_atomically  # noqa: PLC0415
        from stillspace.plots._figure import png  # noqa: PLC0415
        from stillspace.plots.expected_error import draw_expected_error  # noqa: PLC0415

        write_atomically(picture, png(draw_expected_error(found)))
        say("Picture:", str(picture))
