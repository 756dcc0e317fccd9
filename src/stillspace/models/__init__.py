"""Save and load fitted estimators: an `.npz` of four arrays and one JSON text, without pickle.

What goes in is listed name by name; nothing is copied from an estimator wholesale. So the file of a
private fit holds what the guarantee covers and what is public anyway: no generator, no seed, no
row, and no number of rows unless the neighbouring relation makes it public.
"""

from stillspace._model_files import KeyFileError, make_key
from stillspace.models.facts import Model, ModelFile
from stillspace.models.reading import load_model
from stillspace.models.writing import released_facts, save_model

__all__ = [
    "KeyFileError",
    "Model",
    "ModelFile",
    "load_model",
    "make_key",
    "released_facts",
    "save_model",
]
