"""A cache in pages of equal size, handed out when they are needed and shared where sequences begin alike, as an
operating system does with memory (vLLM: Kwon et al., 2023)."""

import torch
from jaxtyping import Float
from torch import Tensor


class PagedCache:
    """A row is all that a token leaves in the cache. Each sequence has a table: the numbers of its pages, in order."""

    def __init__(self, pages: int, page_size: int, d: int, dtype: torch.dtype = torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages  # how many sequences have this page in their table
        self.table: dict[str, list[int]] = {}
        self.length: dict[str, int] = {}

    @property
    def free_pages(self) -> int:
        """How many pages nobody uses."""
        return self.users.count(0)

    def append(self, name: str, rows: Float[Tensor, "n d"]) -> None:
        """Add rows behind the sequence `name`, which begins with its first row. ValueError if no page is free."""
        pages, length = self.table.setdefault(name, []), self.length.get(name, 0)
        for place, row in enumerate(rows, start=length):
            page, slot = divmod(place, self.pool.shape[1])
            if slot == 0:
                pages.append(self._take())
            elif self.users[pages[page]] > 1:
                pages[page] = self._copy(pages[page])
            self.pool[pages[page], slot] = row
            self.length[name] = place + 1

    def read(self, name: str) -> Float[Tensor, "length d"]:
        """All rows of a sequence, oldest first."""
        return self.pool[self.table[name]].flatten(0, 1)[: self.length[name]]

    def fork(self, name: str, new: str) -> None:
        """Begin the sequence `new` with all that `name` holds, and copy nothing."""
        self.table[new], self.length[new] = list(self.table[name]), self.length[name]
        for page in self.table[new]:
            self.users[page] += 1

    def free(self, name: str) -> None:
        """Forget a sequence. Its pages are free again unless others use them."""
        for page in self.table.pop(name):
            self.users[page] -= 1
        del self.length[name]

    def _take(self) -> int:
        if self.free_pages == 0:
            raise ValueError(f"All {len(self.users)} pages are in use.")
        page = self.users.index(0)
        self.users[page] = 1
        return page

    def _copy(self, shared: int) -> int:
        """A page of its own with the same rows; one user fewer for the old one."""
        page = self._take()
        self.pool[page] = self.pool[shared]
        self.users[shared] -= 1
        return page
