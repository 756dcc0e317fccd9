"""`python -m evidence [NAME ...]`: run all proofs or the named ones and write their tables."""

import sys
from collections.abc import Callable
from pathlib import Path

from evidence import (
    audits,
    defences,
    hops,
    kills,
    lost_workers,
    mutants,
    noise,
    robust,
    sensitivity,
    theory,
)

TABLES = Path(__file__).parent / "tables"

PROOFS: dict[str, Callable[[], str]] = {
    "noise": noise.table,
    "losses": robust.losses,
    "centers": robust.centers,
    "false-alarms": robust.false_alarms,
    "kills": kills.kills_table,
    "races": kills.races_table,
    "lost-workers": lost_workers.lost_workers_table,
    "audits": audits.table,
    "coverage": audits.coverage,
    "sensitivity": sensitivity.table,
    "defences": defences.table,
    "promises": theory.promises,
    "linear": theory.linear,
    "certificate": theory.certificate,
    "hops": hops.table,
    "mutants": mutants.table,
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in PROOFS]
    if unknown:
        sys.exit(f"Unknown proof {unknown[0]!r}; known: {', '.join(PROOFS)}.")
    TABLES.mkdir(exist_ok=True)
    for name in names or list(PROOFS):
        text = PROOFS[name]()
        (TABLES / f"{name}.md").write_text(text + "\n", encoding="utf-8")
        print(text, flush=True)


if __name__ == "__main__":  # processes of a cluster import this module again
    main(sys.argv[1:])
