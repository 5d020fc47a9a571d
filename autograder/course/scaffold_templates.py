"""What `attn new` writes, as Jinja templates. `TO FILL IN <exercise or unit>: <what>` marks what is left to its author;
`attn lint` and `attn try` name every such line until it is gone."""

REFERENCE = '''\
"""TO FILL IN {{ id }}: what this file holds, in one line."""

from jaxtyping import Float
from torch import Tensor


def {{ id }}(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """TO FILL IN {{ id }}: what it returns, and its source (paper, section, equation)."""
    raise NotImplementedError  # TO FILL IN {{ id }}: the reference, the clearest right answer; mend the signature first
'''

CHECK = '''\
"""The check of {{ id }}."""

from helpers.engine.cases import random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import wrong_answers

from ..{{ module }} import {{ id }} as reference

__all__ = ["{{ id }}"]


{{ id }} = Check(
    reference=reference,
    cases=[
        random_case(n=5, d=4),  # TO FILL IN {{ id }}: inputs that tell right from wrong; no two sizes alike
        random_case(n=7, d=3),
    ],
    misconceptions=wrong_answers(
        __file__,
        as_it_came=lambda x: x,  # TO FILL IN {{ id }}: the wrong answers that students really give
    ),
)
'''

HINTS = """\
## as_it_came: returned as it came
TO FILL IN {{ id }}: the idea that was missed, in a sentence, not the code.
"""

HIDDEN = """\
{{ id }} = [random_case(n=6, d=5)]  # TO FILL IN {{ id }}: hidden cases, other inputs of the same kinds
"""

ALTERNATIVES = """\
{{ id }} = {
    "a loop": lambda x: x,  # TO FILL IN {{ id }}: a right answer in another style
    "einsum": lambda x: x,  # TO FILL IN {{ id }}: a second one
}
"""

TEST = '''\
"""The reference of {{ id }} in float64."""

import torch

from helpers.{{ room }}.{{ module }} import {{ id }}


def test_{{ module }}():
    x = torch.randn(5, 4, dtype=torch.float64)
    expected = x  # TO FILL IN {{ id }}: PyTorch's own operator, or another way to the same numbers
    torch.testing.assert_close({{ id }}(x), expected)
'''

SECTION = '''\
# %% [markdown]
# ## {{ number }} {{ title }}  ●●○ · 15 min · {{ points }} point{{ "" if points == 1 else "s" }}
#
# TO FILL IN {{ id }}: title and effort above; the idea before the formula, with its source.
#
# **By hand.** TO FILL IN {{ id }}: a number that can be checked by hand.
#
# **Predict:** TO FILL IN {{ id }}: a question to answer before any code, with a cell
# `guess_… = None` below it and a row in the unit's last call of `guesses`.

# %% nbgrader={"grade": false, "grade_id": "{{ id }}", "locked": false, "schema_version": 3, "solution": true}
def {{ id }}(x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """TO FILL IN {{ id }}: what it returns; the signature is the reference's."""
    ### BEGIN SOLUTION
    raise NotImplementedError  # TO FILL IN {{ id }}: the model answer, written apart from the reference
    ### END SOLUTION

# %% [markdown]
# <details><summary>Hint: …</summary>
#
# TO FILL IN {{ id }}: a hint that asks instead of telling.
# </details>

# %% nbgrader={"grade": true, "grade_id": "{{ id }}_test", "locked": true, "points": {{ points }}, \
"schema_version": 3, "solution": false}
check.{{ id }}({{ id }}, points={{ points }})
### BEGIN HIDDEN TESTS
from autograder.hidden import {{ room }} as hidden
check.{{ id }}({{ id }}, points={{ points }}, cases=hidden.{{ id }})
### END HIDDEN TESTS
'''

UNIT = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # {{ unit[:2] }} · {{ title }}
#
# TO FILL IN {{ room }}: what this unit asks, and why.
#
# **After this unit you can**
# - TO FILL IN {{ room }}: what a student can do then.
#
# **How to work.** Read, predict, write, run the check. You have {{ points }} points to earn.

{{ setup }}

# %% [markdown]
# ## What you have now
#
# TO FILL IN {{ room }}: what to keep of each section, in a line.
"""

ROOM = '''\
"""Unit {{ unit[:2] }}: {{ title }}."""
'''

HIDDEN_MODULE = '''\
"""Hidden cases of unit {{ unit[:2] }}."""

from helpers.engine.cases import random_case
'''

ALTERNATIVES_MODULE = '''\
"""Right answers of unit {{ unit[:2] }} in other styles."""
'''

ALTERNATIVES_FILE = '"""Right answers of {{ id }} in other styles."""\n\n'

ROW = (
    "| [{{ unit[:2] }}](notebooks/{{ unit }}/{{ unit }}.ipynb) | TO FILL IN {{ room }}: the unit in a line, what it "
    "needs, its hours | | | {{ points }} |"
)

TABLE = """
[{{ unit }}]
points = 0
auto = []
quiz = []
written = []
"""
