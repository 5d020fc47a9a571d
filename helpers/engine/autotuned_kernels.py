"""Whether the configurations of a kernel under `@triton.autotune` give the same numbers: on a GPU the quickest is
taken, so a kernel that is right under one alone is right by chance. The interpreter runs the first."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

MOST = 6
"""Configurations that are tried."""
NEAR = 1e-2
"""As a share of the largest entry: other tiles are summed up in another order."""


class ConfigurationsDisagree(RuntimeError):
    """Two configurations of one kernel leave different numbers in its tensors."""


def comparing(run: Callable) -> Callable:
    """`Autotuner.run` that runs the other configurations, too, on copies of the arguments."""

    def compared(self, *args, **kwargs) -> Any:
        with _disable_current_modes():  # nothing of it is an operation of the student's
            self.nargs = dict(zip(self.arg_names, args))
            trials = [(config, [_copy(arg) for arg in args]) for config in _other_sizes(self.prune_configs(kwargs))]
            result = run(self, *args, **kwargs)
            for config, copies in trials:
                self.pre_hook(dict(zip(self.arg_names, copies)) | kwargs | config.kwargs, reset_only=True)
                self.fn.run(*copies, **kwargs, **config.all_kwargs())
                _compare(self, args, copies, config)
        return result

    return compared


def _other_sizes(configs: list[Any]) -> list[Any]:
    """One for each choice of sizes, without that of the first: warps and stages are a GPU's."""
    return list({str(one.kwargs): one for one in reversed(configs)}.values())[-2 : -MOST - 1 : -1]


def _copy(arg: Any) -> Any:
    """Of a tensor: one that lies in memory as it does."""
    return torch.empty_strided(arg.shape, arg.stride(), dtype=arg.dtype).copy_(arg) if isinstance(arg, Tensor) else arg


def _compare(tuner: Any, args: tuple, copies: list, config: Any) -> None:
    for name, mine, other in zip(tuner.arg_names, args, copies):
        if isinstance(mine, Tensor) and not _close(mine, other):
            raise ConfigurationsDisagree(
                f"`{tuner.base_fn.__name__}` writes other numbers to `{name}` with {_sizes(config)} than with "
                f"{_sizes(tuner.best_config)}. On a GPU the quickest of its configurations is taken: all must be right."
            )


def _close(mine: Tensor, other: Tensor) -> bool:
    within = NEAR * float(mine.double().nan_to_num(0.0, 0.0, 0.0).abs().max()) if mine.numel() else 0.0
    return torch.allclose(mine.double(), other.double(), rtol=0.0, atol=within, equal_nan=True)


def _sizes(config: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in config.kwargs.items()) or "its defaults"
