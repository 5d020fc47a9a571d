"""Right answers in other styles: a module a unit, or a package with one an exercise; in it a dict {style: function} by
exercise id.

Every one of them must get full points, so a check can't ask for one way of writing. Each is self-contained: it uses
what the notebook's first cell imports, and functions of these modules.
"""
