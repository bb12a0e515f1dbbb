"""The sections of `reproducing-the-paper.md`, each a function of the numbers."""
