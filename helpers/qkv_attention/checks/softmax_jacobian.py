"""The check of `softmax_jacobian`: the derivative of each share by each score."""

from collections.abc import Callable

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, normal, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import softmax as reference

__all__ = ["softmax_jacobian"]


def _of_shares(jacobian: Callable) -> Callable:
    """A formula in y = softmax(z)."""
    return lambda z: jacobian(torch.softmax(z, dim=0))


def jacobian_by_quotients(z, ahead=1e-3, behind=0.0) -> Tensor:
    """Column j: how far the shares move from `behind` z_j to `ahead` of it, divided by that way."""
    moved = [
        torch.softmax(z + ahead * unit, 0) - torch.softmax(z - behind * unit, 0) for unit in torch.eye(len(z)).to(z)
    ]
    return torch.stack(moved, dim=1) / (ahead + behind)


def _off_like_a_quotient(seen) -> bool:
    """Near the right numbers. In float64, where rounding hides nothing, off by a multiple of what a quotient is off by:
    one to the right, to the left, or to both sides."""
    z = seen.args[0].double()
    off = seen.output.double() - reference.softmax_jacobian(z)
    if seen.args[0].dtype != torch.float64:
        return 1e-6 < off.abs().max().item() < 0.02
    quotients = [jacobian_by_quotients(z, *steps) for steps in ((1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-3))]
    expected = [(quotient - reference.softmax_jacobian(z)).flatten() for quotient in quotients]
    return any(torch.cosine_similarity(off.flatten(), one, dim=0).abs() > 0.99 for one in expected)


def _in_float32(seen) -> bool:
    off = (seen.output.double() - reference.softmax_jacobian(seen.args[0])).abs().max().item()
    return seen.args[0].dtype == torch.float64 and 1e-12 < off < 1e-6


def own_powers(z) -> Tensor:
    y = torch.exp(z) / torch.exp(z).sum()
    return torch.diag(y) - torch.outer(y, y)


softmax_jacobian = Check(
    reference=reference.softmax_jacobian,
    cases=[
        random_case(n=3),
        random_case(n=6),
        random_case(n=4, dtype=torch.float64),
        random_case(n=1),
        explicit_case("z = (−3, 1, 100, 5, −1): saturated", torch.tensor([-3.0, 1.0, 100.0, 5.0, -1.0])),
        explicit_case("z near −300", normal(4, mean=-300.0)),
    ],
    misconceptions=wrong_answers(
        __file__,
        no_cross_terms=_of_shares(lambda y: torch.diag(y * (1 - y))),
        sign_turned=_of_shares(lambda y: torch.outer(y, y) - torch.diag(y)),
        ones_on_diagonal=_of_shares(lambda y: torch.eye(len(y)).to(y) - torch.outer(y, y)),
        no_diagonal=_of_shares(lambda y: -torch.outer(y, y)),
        of_log_softmax=_of_shares(lambda y: torch.eye(len(y)) - y.expand(len(y), -1)),
        of_z=lambda z: torch.diag(z) - torch.outer(z, z),
        dot_product=_of_shares(lambda y: torch.diag(y) - y @ y),
        squares=_of_shares(lambda y: torch.diag(y) - y * y),
        one_minus_y=_of_shares(lambda y: torch.outer(y, 1 - y)),
        diagonal_twice=_of_shares(lambda y: torch.diag(y * (1 - y)) - torch.outer(y, y)),
        y_i_twice=_of_shares(lambda y: torch.diag(y) - (y * y)[:, None]),
        added=_of_shares(lambda y: torch.diag(y) + torch.outer(y, y)),
        diagonal_alone=lambda z: reference.softmax_jacobian(z).diagonal(),
        no_maximum=own_powers,
        quotient=Wrong(lambda z: jacobian_by_quotients(z), recognise=_off_like_a_quotient),
        in_float32=Wrong(lambda z: reference.softmax_jacobian(z.float()), recognise=_in_float32),
    ),
)
