"""Notebooks of honest students that look odd: all of them keep their points."""

from .edits import early
from .outwitting import RIGHT, THREADED, before, honest

NOTEBOOKS = [
    honest(
        "honest_imports",
        "libraries that every Colab has",
        "import scipy, sklearn, seaborn as sns, pandas as pd\nfrom sklearn.metrics import accuracy_score\n"
        "from tqdm.auto import tqdm" + RIGHT,
    ),
    honest(
        "honest_tqdm",
        "a progress bar in the answer",
        "from tqdm import tqdm\n" + RIGHT.replace("    e =", "    for _ in tqdm(range(2)): pass\n    e =").strip(),
    ),
    honest(
        "honest_einops",
        "einops in the answer",
        "from einops import rearrange\n"
        + RIGHT.replace("    e =", "    x = rearrange(x, '... -> ...')\n    e =").strip(),
    ),
    honest(
        "honest_colab",
        "a drive mounted in a cell of its own",
        RIGHT,
        "",
        early("from google.colab import drive\ndrive.mount('/content/drive')"),
    ),
    honest(
        "honest_utils",
        "a module of the student's own",
        "from utils import softmax",
        "",
        before("softmax", "%%writefile utils.py\n" + RIGHT.strip()),
    ),
    honest(
        "honest_decorators",
        "decorators of packages that the grader lacks",
        "from beartype import beartype\nimport line_profiler, numba as nb\n\n@beartype\n@nb.njit(fastmath=True)\n"
        "@line_profiler.profile" + RIGHT,
    ),
    honest(
        "honest_logger",
        "a run that is logged, in the answer too",
        "import wandb, mlflow\nfrom kaggle_secrets import UserSecretsClient\n"
        "key = UserSecretsClient().get_secret('wandb')\nwandb.login(key=key)\nrun = wandb.init(project='attention')\n"
        "mlflow.autolog()"
        + RIGHT.replace(
            "    return", "    with mlflow.start_run(): wandb.log({'largest': float(x.max())})\n    return"
        ),
    ),
    honest("honest_pip", "!pip install in the answer cell", "!pip install einops\n" + RIGHT.strip()),
    honest(
        "honest_names",
        "own names that contain a forbidden one",
        "class Notes: pass\nns = Notes(); ns.softmax_max = 0; ns.last_softmax = None\n"
        + RIGHT.replace("    e =", "    ns.last_softmax = x + ns.softmax_max\n    e =").strip(),
    ),
    honest(
        "honest_debug",
        "a line for debugging that never runs",
        "DEBUG = False\n"
        + RIGHT.replace("    return", "    if DEBUG: print(torch.softmax(x, dim))\n    return").strip(),
    ),
    honest(
        "honest_branch",
        "the forbidden name on a road that no case takes: a note, and full marks",
        RIGHT.replace("    e =", "    if x.dim() > 30: return torch.softmax(x, dim)\n    e ="),
        "names `softmax`",
    ),
    honest(
        "honest_thread",
        "a thread that computes the right way",
        THREADED.format("(x - x.amax(dim, True)).exp() / (x - x.amax(dim, True)).exp().sum(dim, True)"),
    ),
    honest("honest_time", "%%time over the answer", "%%time\n" + RIGHT.strip()),
    honest(
        "honest_extension",
        "autoreload, as many notebooks begin",
        "%load_ext autoreload\n%autoreload 2\n" + RIGHT.strip(),
    ),
    honest(
        "honest_fallback",
        "a library in a `try`",
        "try:\n    import cupy\nexcept ImportError:\n    cupy = None\nassert cupy is None" + RIGHT,
    ),
]
