"""How accurate are the adaptive solvers on published problems, and their derivatives?

`python -m studies.conformance` measures everything and writes the tables of
`docs/explanation/conformance.md`; `python -m studies.conformance jitcdde` measures one
part again and keeps the others. JiTCDDE is measured where it is installed; the variable
`JITCDDE_PYTHON` may name the interpreter of another environment that has it.
"""
