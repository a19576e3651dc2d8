#!/usr/bin/env python3
"""Compares the tools of `rex mcp` with the own tools of Claude Code: twenty tasks, done by the same scripted model.

Prints, for each task, the calls that the model made and the bytes that it was shown. Fails if a task fails, or if rex
needs more calls or more bytes in more than five tasks.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from model import LAST_WORDS, ScriptedModel  # noqa: E402
from tasks import TASKS, Local, Rex, prepare  # noqa: E402

KEY = "key-of-the-bench-only"
LEAST_EQUAL = 15
HEADER = """# Tools for agents

Made by `make bench-agents`: one scripted model does twenty tasks in Claude Code, once with its own tools and once with those of `rex mcp` on the same
machine. It makes the calls that a model makes: it looks at output until the answer is there, reads a file before its edit where the
tool requires that, and repeats a command whose output was cut. Counted are the calls and the bytes of their results. The tasks are in
`bench/agents/tasks.py`.

"""


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    target = os.path.join(here, "../../target")
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rex", default=os.path.join(target, "debug/rex"), help="the rex to measure, with rexd beside it")
    arguments.add_argument("--clients", default=os.path.join(target, "mcp-clients"), help="where the clients are installed")
    arguments.add_argument("--out", help="also write the table as Markdown")
    options = arguments.parse_args()
    own = measure(Local, options)
    rex = measure(Rex, options)
    table, equal = compare(own, rex)
    print(table)
    table = HEADER + table
    if options.out:
        with open(options.out, "w") as file:
            file.write(table)
    if equal < LEAST_EQUAL:
        sys.exit(f"rex needs no more of either in {equal} tasks only (at least {LEAST_EQUAL})")


def measure(tools, options):
    """Runs all tasks in one conversation; returns (calls, bytes) per task."""
    base = tempfile.mkdtemp(prefix="bench-agents-")
    try:
        work, home = os.path.join(base, "work"), os.path.join(base, "home")
        os.makedirs(home)
        prepare(work)
        counts = {}
        model = ScriptedModel(script(tools, work, counts))
        trusted = {"hasCompletedOnboarding": True, "projects": {work: {"hasTrustDialogAccepted": True}},
                   "customApiKeyResponses": {"approved": [KEY], "rejected": []}}
        with open(os.path.join(home, ".claude.json"), "w") as file:
            json.dump(trusted, file)
        npm = os.path.abspath(os.path.join(options.clients, "npm/node_modules"))
        command = [os.path.join(npm, ".bin/claude"), "-p", "go", "--max-turns", "400"]
        if tools is Rex:
            server = {"command": os.path.abspath(options.rex), "args": ["mcp"]}
            command += ["--mcp-config", json.dumps({"mcpServers": {"rex": server}}), "--allowedTools", "mcp__rex"]
        else:
            command += ["--allowedTools", "Bash,Read,Edit,Write,Grep,Glob,TaskStop"]
        environment = {
            "HOME": home, "PATH": f"{npm}/node/bin:{os.environ['PATH']}", "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": model.url, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false", "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "300000", "MCP_TIMEOUT": "300000",
            "MCP_TOOL_TIMEOUT": "300000", "LANG": "C.UTF-8",
        }
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=1800)
        model.close()
        if ran.returncode or LAST_WORDS not in ran.stdout or len(counts) < len(TASKS):
            last = model.results[-1] if model.results else ""
            sys.exit(f"{tools.name}: {len(counts)} tasks done\n{ran.stdout}\n{ran.stderr}\nlast result: {last[:2000]}")
        return counts
    finally:
        shutil.rmtree(base, ignore_errors=True)


def script(tools, work, counts):
    """The calls of all tasks, one after the other; counts what each of them shows."""
    for task in TASKS:
        calls = shown = 0
        steps = task(tools(os.path.join(work, task.__name__)))
        result = None
        while True:
            try:
                call = steps.send(result)
            except StopIteration:
                break
            result = yield call
            calls += 1
            shown += len(result.encode())
        counts[task.__name__] = (calls, shown)


def compare(own, rex):
    lines = ["| task | calls, own tools | calls, rex | bytes, own tools | bytes, rex | rex needs no more |",
             "|---|---|---|---|---|---|"]
    equal = 0
    for task in TASKS:
        name = task.__name__
        (own_calls, own_bytes), (rex_calls, rex_bytes) = own[name], rex[name]
        is_equal = rex_calls <= own_calls and rex_bytes <= own_bytes
        equal += is_equal
        answer = "yes" if is_equal else "NO"
        lines.append(f"| {name.replace('_', ' ')} | {own_calls} | {rex_calls} | {own_bytes} | {rex_bytes} | {answer} |")
    lines.append(f"\nrex needs no more of either in {equal} of {len(TASKS)} tasks (goal: {LEAST_EQUAL}).\n")
    return "\n".join(lines), equal


if __name__ == "__main__":
    main()
