"""Whether the search finds the best minimum on records as they really are: random
models, states that were not measured, and delays of any length."""
