"""The course as pages to read: made from the released notebooks alone, so that no answer can be in them.

Jupyter Book and MyST need Node, mkdocs-jupyter takes its formulas from the web. Here the well-known pieces do the work
(markdown-it, Pygments, Jinja, latex2mathml, whose MathML browsers draw), and the pages need no network."""
