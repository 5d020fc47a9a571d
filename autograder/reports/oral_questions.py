"""Questions for a talk of five minutes: three a hand-in, each about a line that this student wrote. They ask for a
reason, a shape or what would happen otherwise, which nobody can say of a line that was only copied."""

import hashlib
import re
from collections.abc import Iterable

MOST = 3
QUESTIONS = {
    r"softmax\(|\.logsumexp\(": "Along which axis does this run, and what would come out along the other one?",
    r"sqrt|\*\* ?-?0?\.5": "What is this root for? What would the weights look like without it?",
    r"masked_fill|\bwhere\(": "Which entries does this change, and why to this number?",
    r"tri[lu]\(": "Draw what this keeps for 3 queries and 5 keys.",
    r"transpose|\.m?T\b|permute|swapaxes|movedim": "Which shape goes in here, and which comes out? Why is it needed?",
    r"keepdim": "What shape would this have without `keepdim`, and what would the next line make of it?",
    r"einsum|rearrange": "Say this in matrix products: which letters are summed over?",
    r"reshape|view\(|flatten|\.split\(|chunk\(": "Which numbers lie side by side after this line? Which did before?",
    r"amax|\.max\(|maximum": "Why is a maximum taken here? Name an input for which it matters.",
    r"\bcat\(|stack\(": "What is joined here, along which axis, and in which order?",
    r"expand|repeat|unsqueeze|\[[^\]]*None": "Which axis comes in here, and what is it for?",
    r"^\s*(for|while)\b": "How often does this loop run for n tokens? Could it be one operation?",
    r"cumsum|arange|roll\(": "What stands in this for n = 4?",
    r"detach|no_grad|requires_grad|backward": "What would the gradients be without this?",
    r"^\s*if\b": "For which input is this true? What goes wrong without it?",
    r"@|matmul|bmm": "Which shapes meet here, and how many multiplications are that?",
}


def oral_questions(code: str, known: Iterable[str] = ()) -> list[tuple[str, str]]:
    """(line, question) of an answer, each of another kind; the choice is the same at every run. known: lines that
    everybody was given."""
    given = {line.strip() for line in known}
    lines = [line for line in code.splitlines() if len(line.strip()) > 12 and line.strip() not in given]
    found: dict[str, str] = {}
    for line in sorted(lines, key=lambda line: hashlib.sha256(line.encode()).digest()):
        kind = next((kind for kind in QUESTIONS if re.search(kind, line)), None)
        if kind and not line.lstrip().startswith(("#", "def ", '"')):
            found.setdefault(kind, line.strip())
    return [(line, QUESTIONS[kind]) for kind, line in list(found.items())[:MOST]]
