"""The studies behind `reproducing-the-paper.md`, each a function that returns JSON."""
