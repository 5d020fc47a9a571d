"""The judge's own process: runs the setup cell and the test cells, as the instructors wrote them, and never a line of a
student's. A name that a test cell uses and nothing here defines is asked for in the student's kernel.
"""

import ast
import builtins
import socket
from typing import Any

from autograder.judge import proxies
from autograder.judge.shell import Said, Shell, messages, new_shell, run_cell
from autograder.judge.wire import BorderError, Endpoint, Packer, Wire


def main(sock: socket.socket, request: dict) -> None:
    """Run cells until home hangs up. With a test cell comes the socket of the kernel that it is about."""
    proxies.CALL_SECONDS = request["call_seconds"]
    wire = Wire(sock)
    said, shell = Said(), new_shell(wire, request["seed"])
    wire.send(Packer().frame({"ready": True}))
    for message in messages(wire):
        shell.execution_count = message["count"]
        if message["ask"] == "test":
            _, (descriptor,), _, _ = socket.recv_fds(sock, 1, 1)
            with socket.socket(fileno=descriptor) as witness:
                status = _test(shell, said, message, witness)
        else:
            status = run_cell(shell, said, message["source"])
        wire.send(Packer().frame({"done": status}))


def _test(shell: Shell, said: Said, message: dict, witness: socket.socket) -> str:
    """Runs a test cell. The student's names are there for this one cell."""
    endpoint = Endpoint(Wire(witness), proxies.remote, proxies.serve_callbacks)
    wanted = unknown_names(message["source"], shell.user_ns)
    shell.user_ns.update({name: _student_value(endpoint, name, message["absent"].get(name, "")) for name in wanted})
    for name in wanted:
        if isinstance(shell.user_ns[name], proxies.Remote):
            shell.user_ns[name].__dict__["__written__"] = tuple(message["written"].get(name, ()))
    status = run_cell(shell, said, message["source"])
    for name in wanted:
        shell.user_ns.pop(name, None)
    return status


def _student_value(endpoint: Endpoint, name: str, reason: str) -> Any:
    try:
        answer = endpoint.ask(proxies.CALL_SECONDS, ask="get", name=name)["ok"]
        return answer["value"] if answer["defined"] is True else proxies.Absent(name, f"`{name}` isn't defined{reason}")
    except (BorderError, KeyError, TypeError):
        return proxies.Absent(name, f"`{name}` can't be reached{reason}")


def unknown_names(source: str, known: dict[str, Any]) -> list[str]:
    """The names that a cell reads and that neither it, nor `known`, nor Python defines."""
    tree = ast.parse(source)
    read, bound = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
    return sorted(name for name in read - bound if name not in known and not hasattr(builtins, name))
