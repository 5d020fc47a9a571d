"""The check of `softmax_jacobian`."""

import torch
from torch import Tensor

from helpers.engine.cases import explicit_case, normal, random_case
from helpers.engine.check import Check
from helpers.engine.wrong_answers import Wrong, wrong_answers

from .. import softmax as reference

__all__ = ["softmax_jacobian"]


def jacobian_with_ones(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.eye(len(z)).to(z) - torch.outer(y, y)


def jacobian_without_cross_terms(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y * (1 - y))


def jacobian_with_the_sign_turned(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.outer(y, y) - torch.diag(y)


def jacobian_without_diagonal(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return -torch.outer(y, y)


def jacobian_of_log_softmax(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.eye(len(z)) - y.expand(len(z), -1)


def jacobian_by_quotients(z, ahead=1e-3, behind=0.0) -> Tensor:
    """Column j: how far the shares move from `behind` z_j to `ahead` of it, divided by that way."""
    moved = [
        torch.softmax(z + ahead * unit, 0) - torch.softmax(z - behind * unit, 0) for unit in torch.eye(len(z)).to(z)
    ]
    return torch.stack(moved, dim=1) / (ahead + behind)


def _off_like_a_quotient(seen) -> bool:
    """Near the right numbers. In float64, where rounding hides nothing, off by a multiple of what a quotient is off by: one to the
    right, to the left, or to both sides."""
    z = seen.args[0].double()
    off = seen.output.double() - reference.softmax_jacobian(z)
    if seen.args[0].dtype != torch.float64:
        return 1e-6 < off.abs().max().item() < 0.02
    quotients = [jacobian_by_quotients(z, *steps) for steps in ((1e-3, 0.0), (0.0, 1e-3), (1e-3, 1e-3))]
    expected = [(quotient - reference.softmax_jacobian(z)).flatten() for quotient in quotients]
    return any(torch.cosine_similarity(off.flatten(), one, dim=0).abs() > 0.99 for one in expected)


def jacobian_by_own_powers(z) -> Tensor:
    y = torch.exp(z) / torch.exp(z).sum()
    return torch.diag(y) - torch.outer(y, y)


def jacobian_with_a_number(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - y @ y


def jacobian_with_squares(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - y * y


def jacobian_with_y_i_twice(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) - (y * y)[:, None]


def jacobian_with_a_plus(z) -> Tensor:
    y = torch.softmax(z, dim=0)
    return torch.diag(y) + torch.outer(y, y)


def jacobian_summed_up(z) -> Tensor:
    return reference.softmax_jacobian(z).diagonal()


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
        no_cross_terms=jacobian_without_cross_terms,
        sign_turned_round=jacobian_with_the_sign_turned,
        with_1_on_diagonal_place_y=jacobian_with_ones,
        no_diagonal_term=jacobian_without_diagonal,
        derivative_log_softmax=jacobian_of_log_softmax,
        z_put_where_y_belongs=lambda z: torch.diag(z) - torch.outer(z, z),
        y_y_single_number=jacobian_with_a_number,
        squares_y_instead_all_products=jacobian_with_squares,
        with_1_minus_y_place_minus_y=lambda z: torch.outer(torch.softmax(z, 0), 1 - torch.softmax(z, 0)),
        square_taken_off_diagonal_twice=lambda z: (
            torch.diag(torch.softmax(z, 0) * (1 - torch.softmax(z, 0)))
            - torch.outer(torch.softmax(z, 0), torch.softmax(z, 0))
        ),
        y_i_subtracted_instead_y_j=jacobian_with_y_i_twice,
        products_added_instead_subtracted=jacobian_with_a_plus,
        diagonal_alone=jacobian_summed_up,
        no_maximum_subtracted=jacobian_by_own_powers,
        difference_quotient_instead_formula=Wrong(lambda z: jacobian_by_quotients(z), recognise=_off_like_a_quotient),
        computed_float32_where_input_float64=Wrong(
            lambda z: reference.softmax_jacobian(z.float()),
            recognise=lambda seen: (
                seen.args[0].dtype == torch.float64
                and 1e-12 < (seen.output.double() - reference.softmax_jacobian(seen.args[0])).abs().max().item() < 1e-6
            ),
        ),
    ),
)
