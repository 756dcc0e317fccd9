"""Finished cells, one small file each: written in one step, found again by what they computed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from reproduction.cells import AnyCell, Result
from stillspace._files import write_atomically


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of finished cells.

    The name of a file holds a digest of everything the result depends on, so a cell with another
    seed, size or version is another file and nothing stale is ever read. A file that cannot be
    read counts as not there.
    """

    folder: Path

    def path(self, cell: AnyCell) -> Path:
        """Return where a cell is kept."""
        text = json.dumps(cell.key(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.folder / f"{cell.label}-{digest}.json"

    def load(self, cell: AnyCell) -> Result | None:
        """Return the result of a cell, or None if it is not there."""
        try:
            kept = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return kept["result"] if kept.get("key") == plain(cell.key()) else None

    def save(self, cell: AnyCell, result: Result) -> None:
        """Keep a result; whatever fails on the way, the folder holds whole files only."""
        kept = {"key": cell.key(), "result": result}
        write_atomically(self.path(cell), json.dumps(kept).encode())

    def drop(self, cell: AnyCell) -> None:
        """Forget a cell."""
        self.path(cell).unlink(missing_ok=True)


def plain(value: object) -> object:
    """Return a value as JSON would give it back."""
    return json.loads(json.dumps(value))
