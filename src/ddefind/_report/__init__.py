"""The report of a fit: one page of HTML that needs nothing else.

- `build.py`: the page, put together from its sections. Begin here.
- `sections.py`: the sections, and what they are made of.
- `pictures.py`: charts of `_figures` as pictures, for paper and for readers without
  JavaScript, and typeset equations. In the browser the scripts in `page` draw charts.
- `page`: template, style and scripts.

May import: `_util`, `_data`, `_problem`, `_figures`, `plots`, `_search`,
`_inference`.
"""
