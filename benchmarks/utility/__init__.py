"""Accuracy at the same (ε, δ): the library's default against other private PCA methods."""
