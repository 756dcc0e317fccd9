"""Longer proofs: figures that take too long for the tests. `make evidence` writes the tables."""
