# %% [markdown]
# # A small unit
#
# Two exercises, a quiz and a written question of unit 02: enough for tests of the pipeline. You have 9 points to earn.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false}
import math

import torch
from helpers import check

# %% [markdown]
# ## 2.1 Softmax  ●○○ · 5 min · 2 points

# %% nbgrader={"grade": false, "grade_id": "softmax", "locked": false, "schema_version": 3, "solution": true}
def softmax(x, dim):
    """Softmax over one axis."""
    ### BEGIN SOLUTION
    e = (x - x.amax(dim=dim, keepdim=True)).exp()
    return e / e.sum(dim=dim, keepdim=True)
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Any shape and any `dim`.
# </details>

# %% nbgrader={"grade": true, "grade_id": "softmax_test", "locked": true, "points": 2, "schema_version": 3, "solution": false}
check.softmax(softmax, points=2)
### BEGIN HIDDEN TESTS
from autograder.hidden import qkv_attention as hidden
check.softmax(softmax, points=2, cases=hidden.softmax)
### END HIDDEN TESTS

# %% [markdown]
# ## 2.2 Attend  ●○○ · 5 min · 3 points

# %% nbgrader={"grade": false, "grade_id": "attend", "locked": false, "schema_version": 3, "solution": true}
def attend(query, keys, values):
    """The values, mixed by the attention weights of one query."""
    ### BEGIN SOLUTION
    return torch.softmax(keys @ query, dim=0) @ values
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - One query, any number of keys.
# </details>

# %% nbgrader={"grade": true, "grade_id": "attend_test", "locked": true, "points": 3, "schema_version": 3, "solution": false}
check.attend(attend, points=3)
### BEGIN HIDDEN TESTS
from autograder.hidden import qkv_attention as hidden
check.attend(attend, points=3, cases=hidden.attend)
### END HIDDEN TESTS

# %% [markdown]
# ## 2.3 Two words  ●○○ · 5 min · 1 point

# %% nbgrader={"grade": false, "grade_id": "two_word_example", "locked": false, "schema_version": 3, "solution": true}
def two_word_example():
    """The weights of two words whose scores are 112 and 96, with d = 64."""
    ### BEGIN SOLUTION
    first = 1 / (1 + math.exp(-2))
    return first, 1 - first
    ### END SOLUTION

# %% [markdown]
# <details><summary>What exactly is checked</summary>
#
# - Both weights, to within 0.01.
# </details>

# %% nbgrader={"grade": true, "grade_id": "two_word_example_test", "locked": true, "points": 1, "schema_version": 3, "solution": false}
check.two_word_example(two_word_example, points=1)
### BEGIN HIDDEN TESTS
from autograder.hidden import qkv_attention as hidden
check.two_word_example(two_word_example, points=1, cases=hidden.two_word_example)
### END HIDDEN TESTS

# %% [markdown] nbgrader={"grade": false, "grade_id": "why_same_size_question", "locked": true, "schema_version": 3, "solution": false}
# ## 2.4 Why the same size?  ●○○ · 5 min · 3 points
#
# Why must queries and keys have the same size?
#
# ### BEGIN MARK SCHEME
# One point for naming the dot product.
# ### END MARK SCHEME

# %% [markdown] nbgrader={"grade": true, "grade_id": "why_same_size", "locked": false, "points": 3, "schema_version": 3, "solution": true}
# The score is a dot product, which needs vectors of one size.
