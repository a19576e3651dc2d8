"""The tools of rex for an agent loop: their schemas, and one call. Uses only the standard library."""

import json
import os
import subprocess

REX = os.environ.get("REX", "rex")


def schemas(form):
    """The tool schemas for the model: `openai`, `anthropic` or `json-schema`."""
    printed = subprocess.run([REX, "tools", "--format", form], stdout=subprocess.PIPE, check=True)
    return json.loads(printed.stdout)


def call(tool, arguments):
    """Runs one tool on the target (`rex target show`); returns the text for the model and whether it succeeded."""
    command = [REX, "call", tool, "-"]
    done = subprocess.run(command, input=json.dumps(arguments).encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    text = (done.stdout or done.stderr).decode(errors="replace")
    return text, done.returncode == 0
