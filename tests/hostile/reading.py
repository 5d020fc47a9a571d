"""Notebooks that want to see what is not theirs. They are honest otherwise; whatever they find they print after
`LEAK`."""

from .edits import Hostile, early


def read(name: str, tries: str, source: str) -> Hostile:
    """A cell that prints LEAK and what it found, wherever it finds something."""
    return Hostile(name, tries, (early("import os, glob, subprocess, socket, ctypes\n" + source.strip("\n")),))


def read_files(name: str, tries: str, *patterns: str) -> Hostile:
    listed = ", ".join(f'"{pattern}"' for pattern in patterns)
    return read(
        name,
        tries,
        f"""
for pattern in [{listed}]:
    for path in glob.glob(os.path.expanduser(pattern), recursive=True):
        try: found = open(path, "rb").read(2000)
        except OSError as error: print(error)
        else: print("LEAK" if found else "empty", path, found)
print("done")""",
    )


NOTEBOOKS = [
    read_files(
        "hidden_cases", "the hidden cases", "{PACKAGES}/autograder/hidden/**", "{PACKAGES}/autograder/alternatives/**"
    ),
    read(
        "hidden_import",
        "the hidden cases, by import",
        """
try:
    from autograder.hidden import qkv_attention
    print("LEAK", qkv_attention.__dict__)
except ImportError as error: print(error)""",
    ),
    read_files("solutions", "the solution notebooks", "{COURSE}/solutions/**", "{PACKAGES}/solutions/**"),
    read_files("gradebook", "the gradebook", "{COURSE}/**/gradebook.db", "{PACKAGES}/**/gradebook.db"),
    read(
        "writes_gradebook",
        "writes full marks into the gradebook",
        """
import sqlite3
try:
    base = sqlite3.connect("{COURSE}/autograder/class/gradebook.db")
    base.execute("update grade set manual_score = 100")
    base.commit()
    print("LEAK wrote")
except sqlite3.Error as error: print(error)""",
    ),
    read_files(
        "other_submissions", "what others handed in", "{COURSE}/autograder/class/submitted/**", "/tmp/attn-*/**"
    ),
    read_files(
        "references",
        "the references and the checks of the unit, sources and compiled",
        "{PACKAGES}/helpers/qkv_attention/*",
        "{PACKAGES}/helpers/**/softmax*",
        "{PACKAGES}/helpers/engine/answers/**",
        "{PACKAGES}/helpers/*/checks/*",
    ),
    read(
        "copies_of_the_course",
        "another copy of the course: a wheel among the packages of any Python, a clone in a usual place",
        """
import sys
prefixes = {"/usr", "/usr/local", "/opt/conda", sys.prefix, sys.base_prefix}
places = [f"{prefix}/lib*/python*/*-packages/{name}/**" for prefix in prefixes for name in ("helpers", "autograder")]
places += ["/usr/src/*", "/usr/local/src/*", "/srv/*", "/autograder/*", "{PACKAGES}/.git/*", "{PACKAGES}/tests/*"]
places += ["{PACKAGES}/backups/*", "{PACKAGES}/notebooks/*", "{PACKAGES}/*.md"]
for path in [path for place in places for path in glob.glob(place, recursive=True)]:
    if os.path.isfile(path): print("LEAK", path)
    else: print("empty", path)""",
    ),
    read(
        "environment",
        "the grader's environment variables",
        """
for path in ["/proc/self/environ", *glob.glob("/proc/*/environ")]:
    try: text = open(path).read()
    except OSError: continue
    if "CANARY" in text: print("LEAK", text)
if "CANARY" in str(dict(os.environ)): print("LEAK", os.environ)""",
    ),
    read(
        "processes",
        "other processes and their command lines",
        """
for path in glob.glob("/proc/[0-9]*/cmdline"):
    text = open(path).read()
    if "CANARY" in text or "pytest" in text or "nbgrader" in text: print("LEAK", text)
for pid in glob.glob("/proc/[0-9]*/root"):
    try: print("LEAK", os.listdir(pid + "{PACKAGES}/solutions")) if os.listdir(pid + "{PACKAGES}/solutions") else None
    except OSError as error: print(error)""",
    ),
    read(
        "memory_of_others",
        "the memory of the process that watches it",
        """
for pid in ("1", "2"):
    if int(pid) == os.getpid(): continue
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(int(maps.readline().split("-")[0], 16))
            print("LEAK", memory.read(16))
    except OSError as error: print(error)
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, 0, 0) == 0: print("LEAK ptrace")""",
    ),
    read_files("home", "home folders, keys and tokens", "/root/*", "/home/*/*", "/root/.ssh/*", "/root/.bash_history"),
    read_files(
        "system_secrets",
        "password hashes, kernel memory, the host's logs",
        "/etc/shadow",
        "/proc/kcore",
        "/dev/mem",
        "/var/log/*",
    ),
    read(
        "loopback",
        "a server on this machine",
        """
for family, address in ((socket.AF_INET, ("127.0.0.1", {PORT})), (socket.AF_INET6, ("::1", {PORT}))):
    try:
        socket.create_connection(address, timeout=2)
        print("LEAK connected")
    except OSError as error: print(error)""",
    ),
    read(
        "abstract_socket",
        "a Unix socket without a file",
        """
try:
    socket.socket(socket.AF_UNIX).connect("\\0{ABSTRACT}")
    print("LEAK connected")
except OSError as error: print(error)""",
    ),
    read(
        "address_families",
        "a network that is in no network namespace (vsock), and every other family",
        """
for family in range(2, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try: print("LEAK", socket.socket(family, kind))
        except OSError as error: print(family, error)""",
    ),
    read(
        "internet",
        "the internet, by name and by number",
        """
for address in (("example.org", 80), ("1.1.1.1", 53)):
    try:
        socket.create_connection(address, timeout=2)
        print("LEAK connected")
    except OSError as error: print(error)""",
    ),
    read(
        "becomes_root",
        "root, by setuid programs, capabilities and new namespaces",
        """
for act in (lambda: os.setuid(0), lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else None):
    try: act()
    except (OSError, PermissionError) as error: print(error)
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000) == 0: print("LEAK new user namespace")
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: print("LEAK mount")
if os.geteuid() == 0: print("LEAK root")
held = [line for line in open("/proc/self/status") if line.startswith("CapEff")]
if int(held[0].split()[1], 16): print("LEAK", held)""",
    ),
    read(
        "writes_system",
        "the course's packages and the system's files",
        """
ours = ("{PACKAGES}/helpers/__init__.py", "{PACKAGES}/helpers/new.py")
for path in (*ours, torch.__file__, "/usr/bin/forged", "/etc/passwd", "/forged"):
    try:
        open(path, "a").write("# forged")
        print("LEAK wrote", path)
    except OSError as error: print(error)""",
    ),
    read(
        "escapes_by_descriptor",
        "a way out through descriptors left open",
        """
for number in range(3, 128):
    try: target = os.readlink(f"/proc/self/fd/{number}")
    except OSError: continue
    if target.startswith("/") and not target.startswith(("/tmp", "/dev", "/proc")): print("LEAK", target)
    for way in ("../../../../../..{PACKAGES}/solutions", "../../../../etc/shadow"):
        try: print("LEAK", os.open(way, os.O_RDONLY, dir_fd=number))
        except OSError: pass""",
    ),
    read(
        "own_user_id",
        "a user that other sandboxes, or the grader, share",
        """
if os.geteuid() == 0: print("LEAK root")
try:
    os.kill({GRADER}, 0)
    print("LEAK can signal the grader")
except OSError as error: print(error)""",
    ),
]
