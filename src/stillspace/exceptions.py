"""The package's own errors and warnings."""


class NotAccountedError(ValueError):
    """No accountant covers this; the message says what to use instead."""


class LedgerError(RuntimeError):
    """What ran is not what was planned: the result is withheld."""


class NothingReleasedError(RuntimeError):
    """A test that the guarantee covers came out against a release; the budget is spent."""


class BudgetError(RuntimeError):
    """A ledger cannot be opened, read or written; nothing was charged or published."""


class BudgetExceededError(BudgetError):
    """The ledger has too little left for this fit; nothing was charged and no row was read."""


class PrivacyWarning(UserWarning):
    """The guarantee is weaker than a person may expect (large epsilon, delta >= 1/n)."""


class AsItIsWarning(UserWarning):
    """A private fit took the rows as they are: their centre and units may decide the result."""


class LeftOutWarning(UserWarning):
    """A private fit left a group of rows out: the group may be a real minority."""


class SeededNoiseWarning(UserWarning):
    """The noise of a private fit was seeded: for experiments only."""


class DisagreementWarning(UserWarning):
    """A robust fit has rivals: another subspace, or another number of components, is as good."""


class DataFileError(ValueError):
    """A file of rows cannot be read as it is; the message names the file and what to do."""


class JournalError(RuntimeError):
    """A journal cannot be used as it is; nothing in it was changed."""


class ResumedWarning(UserWarning):
    """Answers of a fit come from a journal: the rows were not read for them."""
