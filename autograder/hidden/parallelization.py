"""Hidden cases of unit 01."""

import torch

from helpers.engine.cases import as_float64, explicit_case, random_case
from helpers.parallelization.checks.associative_scan import matrix_product, plain_sum, scan_case
from helpers.parallelization.checks.attention_one_token import LOOP_FREE
from helpers.parallelization.checks.chunked_attention import handing_out
from helpers.parallelization.recurrence import combine

rnn_encoder = [
    random_case(b=1, n=9, d_in=5, d=2),
    random_case(b=4, n=3, d_in=2, d=7, dtype=torch.float64),
    random_case(b=5, n=5, d_in=5, d=5, scale=0.5),
    random_case(b=3, n=70, d_in=4, d=2, dtype=torch.float64, gradient=True),
    random_case(b=2, n=1_200, d_in=2, d=1, scale=0.2),
]
attention_one_token = {
    "attention_one_token": [
        random_case(n=9, m=4, d=5, d_v=6, i=7, label="token 7 of 9, 4 keys"),
        random_case(n=1, m=8, d=2, d_v=5, i=0, label="the only token"),
        random_case(n=5, m=6, d=7, d_v=4, i=3, dtype=torch.float64, label="token 3, in float64"),
    ],
    "attention_all_tokens": [
        random_case(n=9, m=4, d=5, d_v=6),
        random_case(n=5, m=1, d=3, d_v=2, label="a single key"),
        random_case(n=6, m=6, d=6, d_v=6, scale=5.0, dtype=torch.float64, label="everything square"),
        random_case(
            n=1_100, m=6, d=2, d_v=3, max_operations=LOOP_FREE, label=f"1,100 tokens in {LOOP_FREE} operations"
        ),
    ],
}
critical_path = {
    "rnn_steps": [random_case(n=33)],
    "stacked_rnn_steps": [random_case(n=12, layers=9), random_case(n=6, layers=1)],
    "encoder_steps": [random_case(n=12, layers=9), random_case(n=6, layers=1)],
    "decoder_steps": [random_case(n=12, layers=9), random_case(n=6, layers=1)],
}
layers_in_sequence = {
    "rnn_schedule": [random_case(layers=7, n=9)],
    "transformer_schedule": [random_case(layers=7, n=9)],
    "writing_schedule": [random_case(layers=7, n=9)],
}
chunked_attention = {
    "attention_chunk": [
        random_case(n=10, m=5, d=3, d_v=6, start=9, stop=10, label="one row"),
        random_case(n=80, m=40, d=4, d_v=3, start=0, stop=7, max_elements=1600, label="only 7 rows of 80"),
    ],
    "chunked_attention": [
        handing_out(11, 5, [2, 1, 0], "11 rows in chunks of 5, backwards"),
        handing_out(4, 9, [0], "4 rows, one chunk of 9"),
        handing_out(45, 4, [5, 10, 0, 7, 2, 11, 6, 1, 9, 4, 3, 8], "45 rows in chunks of 4, mixed"),
    ],
}
pipeline_steps = [random_case(layers=12, micro_batches=32), random_case(layers=2, micro_batches=7)]
associative_scan = {
    "combine": [
        random_case(k=(2, 1, 3)),
        explicit_case("halve, then halve", torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0])),
    ],
    "associative_scan": [
        scan_case("linear steps", combine, 2, 7),
        scan_case("2×2 matrices", matrix_product, 4, 33),
        as_float64(scan_case("sums", plain_sum, 1, 3_000)),
        scan_case("linear steps", combine, 2, 150),
    ],
}
matmul_gflops = [random_case(m=37, k=512, n=2, seconds=1e-5), random_case(m=4096, k=64, n=4096, seconds=0.03)]
forward_passes = []
