"""Right answers of paged_cache in other styles."""

import torch


class PagesWithAFreeList:
    """A list of free page numbers; a page is copied before the first row is written."""

    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.rows = torch.empty(pages * page_size, d, dtype=dtype)
        self.size, self.unused, self.users, self.tables = page_size, list(range(pages)), {}, {}

    @property
    def free_pages(self):
        return len(self.unused)

    def new_page(self):
        if not self.unused:
            raise ValueError("no page left")
        page = self.unused.pop()
        self.users[page] = 1
        return page

    def let_go(self, page):
        self.users[page] -= 1
        if not self.users[page]:
            self.unused.append(page)

    def append(self, name, rows):
        table, length = self.tables.get(name, ([], 0))
        for row in rows:
            if length == len(table) * self.size:
                table.append(self.new_page())
            elif self.users[table[-1]] > 1:
                old, table[-1] = table[-1], self.new_page()
                self.rows[table[-1] * self.size :][: self.size] = self.rows[old * self.size :][: self.size].clone()
                self.let_go(old)
            self.rows[table[-1] * self.size + length % self.size] = row
            length += 1
            self.tables[name] = table, length

    def read(self, name):
        table, length = self.tables[name]
        return torch.stack([self.rows[table[t // self.size] * self.size + t % self.size] for t in range(length)])

    def fork(self, name, new):
        table, length = self.tables[name]
        self.tables[new] = table[:], length
        for page in table:
            self.users[page] += 1

    def free(self, name):
        table, _ = self.tables.pop(name)
        for page in table:
            self.let_go(page)


class PagesWithoutCounters:
    """Who uses a page is seen from the tables: nothing to count, nothing to forget."""

    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool, self.tables, self.lengths = torch.zeros(pages, page_size, d, dtype=dtype), {}, {}

    @property
    def free_pages(self):
        return len(self.pool) - len(set(self.used()))

    def used(self):
        return [page for table in self.tables.values() for page in table]

    def unused(self):
        free = [page for page in range(len(self.pool)) if page not in self.used()]
        if not free:
            raise ValueError("all pages are used")
        return free[0]

    def append(self, name, rows):
        table = self.tables.setdefault(name, [])
        for row in rows:
            page, slot = divmod(self.lengths.get(name, 0), self.pool.shape[1])
            if page == len(table):
                table.append(self.unused())
            elif self.used().count(table[page]) > 1:
                copy = self.unused()
                self.pool[copy] = self.pool[table[page]]
                table[page] = copy
            self.pool[table[page]][slot] = row
            self.lengths[name] = self.lengths.get(name, 0) + 1

    def read(self, name):
        return torch.cat([self.pool[page] for page in self.tables[name]])[: self.lengths[name]]

    def fork(self, name, new):
        self.tables[new], self.lengths[new] = [*self.tables[name]], self.lengths[name]

    def free(self, name):
        del self.tables[name], self.lengths[name]


class PagesInSlices:
    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages
        self.table = {}
        self.length = {}

    @property
    def free_pages(self):
        return self.users.count(0)

    def take(self):
        page = self.users.index(0)
        self.users[page] = 1
        return page

    def append(self, name, rows):
        if name not in self.table:
            self.table[name], self.length[name] = ([], 0)
        size = self.pool.shape[1]
        while len(rows):
            place, slot = divmod(self.length[name], size)
            page = self._writable(self.table[name], place, slot)
            part, rows = (rows[: size - slot], rows[size - slot :])
            self.pool[page, slot : slot + len(part)] = part
            self.length[name] += len(part)

    def _writable(self, table, place, slot):
        if slot == 0:
            table.append(self.take())
        elif self.users[table[place]] > 1:
            mine, shared = (self.take(), table[place])
            self.pool[mine, :slot] = self.pool[shared, :slot]
            self.users[shared] -= 1
            table[place] = mine
        return table[place]

    def read(self, name):
        t = torch.arange(self.length[name])
        pages = torch.tensor(self.table[name], dtype=torch.long)
        return self.pool[pages[t // self.pool.shape[1]], t % self.pool.shape[1]]

    def fork(self, name, new):
        self.table[new], self.length[new] = (self.table[name][:], self.length[name])
        for page in self.table[name]:
            self.users[page] += 1

    def free(self, name):
        del self.length[name]
        for page in self.table.pop(name):
            self.users[page] -= 1


class PagesRowByRow:
    def __init__(self, pages, page_size, d, dtype=torch.float32):
        self.pool = torch.zeros(pages, page_size, d, dtype=dtype)
        self.users = [0] * pages
        self.table = {}
        self.length = {}

    @property
    def free_pages(self):
        return self.users.count(0)

    def take(self):
        free = [page for page, users in enumerate(self.users) if not users]
        if not free:
            raise ValueError("all pages are in use")
        page = free.pop()
        self.users[page] = 1
        return page

    def append(self, name, rows):
        size = self.pool.size(1)
        table, length = (self.table.setdefault(name, []), self.length.setdefault(name, 0))
        for t, row in enumerate(rows, start=length):
            if t == size * len(table):
                table.append(self.take())
            if self.users[table[-1]] != 1:
                old, table[-1] = (table[-1], self.take())
                self.users[old] -= 1
                self.pool[table[-1]].copy_(self.pool[old])
            self.pool[table[-1]][t % size] = row
            self.length[name] = t + 1

    def read(self, name):
        return self.pool.index_select(0, torch.tensor(self.table[name], dtype=torch.long)).reshape(
            -1, self.pool.shape[-1]
        )[: self.length[name]]

    def fork(self, name, new):
        self.table[new] = [*self.table[name]]
        self.length[new] = self.length[name]
        self.users = [u + (p in self.table[new]) for p, u in enumerate(self.users)]

    def free(self, name):
        gone = self.table.pop(name)
        self.length.pop(name)
        self.users = [u - (p in gone) for p, u in enumerate(self.users)]


paged_cache = {
    "a list of free pages": PagesWithAFreeList,
    "users read off the tables": PagesWithoutCounters,
    "page by page in slices": PagesInSlices,
    "row by row, highest free page first": PagesRowByRow,
}
