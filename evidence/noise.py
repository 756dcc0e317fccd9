"""Noise that an honest budget needs in the paper's setting, for every sampling and relation."""

from evidence._table import markdown
from stillspace.privacy import Guarantee
from stillspace.recipes import Facts, make_plan

N = T = 2000
WANTED = {
    ("all", "add-or-remove-one"): (0.0421, 0.1023),
    ("all", "replace-one"): (0.0842, 0.2045),
    ("poisson", "add-or-remove-one"): (0.0537, 0.1099),
    ("poisson", "replace-one"): (0.0848, 0.2045),
    ("without-replacement", "replace-one"): (0.1245, 0.2446),
    ("with-replacement", "replace-one"): (0.1264, 0.2465),
}


def table() -> str:
    rows = []
    for (sampling, relation), wanted in WANTED.items():
        for delta, label, want in zip((N**-0.5, 1e-5), ("1/√n", "1e-5"), wanted, strict=True):
            facts = Facts(N, 20, 2, 0.8, delta, relation)
            batch = {} if sampling == "all" else {"sampling": sampling, "batch_size": 20}
            name = "dp-ggd" if sampling == "all" else "dp-sggd"
            plan = make_plan(name, facts, n_iter=T, start="random", **batch)
            sigma = plan.release.sigma(0) / plan.release.divisor
            epsilon = Guarantee.from_event(plan.event(), relation, delta).epsilon
            rows.append(
                (
                    sampling,
                    relation,
                    label,
                    f"{sigma:.5f}",
                    want,
                    f"{sigma / want - 1:+.2%}",
                    f"{epsilon:.6f}",
                )
            )
    printed = make_plan(
        "dp-sggd", Facts(N, 20, 2, 0.8, N**-0.5, calibration="as-printed"), n_iter=T
    )
    true = Guarantee.from_event(
        printed.event(), "replace-one", N**-0.5, not_private_because=["as printed"]
    )
    sigma = printed.release.sigma(0) / printed.release.divisor
    rows.append(
        (
            "with-replacement, as printed",
            "replace-one",
            "1/√n",
            f"{sigma:.5f}",
            "0.00054",
            "",
            f"{true.epsilon:.0f}",
        )
    )
    return markdown(
        "Noise for an honest budget",
        "Standard deviation on the mean GLAD gradient for ε = 0.8, n = T = 2000, batch 20. "
        "The last row is the noise that the paper prints for dp-SGGD, with the ε it gives.",
        ["sampling", "relation", "δ", "σ", "σ expected", "difference", "ε from what would run"],
        rows,
    )
