"""Measurements of what the DDE-Find paper claims or leaves open.

Each measurement is a function without arguments that returns what JSON can hold.
`python -m studies.paper_claims` runs them.
"""
