"""Slips of cross-attention: queries come from `x`, keys and values from `memory`."""

from helpers.engine.wrong_answers import Slip


class Sources:
    """Of what queries, keys and values are made: `sources(x, memory)`."""

    memory_ignored = Slip(sources=lambda x, memory: (x, x, x), raises="RuntimeError")
    values_from_x = Slip(sources=lambda x, memory: (x, memory, x), raises="RuntimeError")
    memory_cut_off = Slip(sources=lambda x, memory: (x, memory.detach(), memory.detach()))
