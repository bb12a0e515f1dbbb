"""Does what a fit says hold? Random models, some with more parameters than the data can
tell apart, and data from an integrator that is not ours.

`python -m studies.statements [--first N] [--cases N]` fits each without start values,
and checks what was printed: combinations along their null curves, the ends of intervals
with half the step, verdicts against noise-free profiles, and how often intervals
contain the truth."""
