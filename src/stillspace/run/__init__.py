"""Running a plan: the loop, the compiled executors, and what is kept of a run."""

from stillspace.run.loop import Result, run

__all__ = ["Result", "run"]
