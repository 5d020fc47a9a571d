"""Hidden cases of unit 00."""

import torch

from helpers.engine.cases import random_case
from helpers.start_here.checks.weighted_rows import rows_case

pairwise_dot = [random_case(n=6, m=2, d=9), random_case(n=1, m=1, d=3), random_case(n=5, m=3, d=4, dtype=torch.float64)]
weighted_rows = [
    rows_case("m = 1, n = 6, d = 2", (1, 6), (6, 2)),
    rows_case("a batch of 4: m = n = 2, d = 5", (4, 2, 2), (4, 2, 5)),
]
read_shape = []
