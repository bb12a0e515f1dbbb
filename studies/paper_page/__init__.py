"""The page `docs/explanation/reproducing-the-paper.md`, written from kept results.

Each section is a function of the numbers (`numbers.Numbers`) that returns Markdown.
`python -m studies.paper_page` writes the page.
"""
