"""Twenty tasks of a coding agent, each as the sequence of calls that a model makes with one set of tools.

A task is a generator: it yields calls, receives what the model would see, and ends when the model knows the answer. It
asserts that it does. Both sets of tools work on equal directories.
"""

import os
import re


class Local:
    """Claude Code's own tools."""

    name = "own tools"

    def __init__(self, directory):
        self.directory = directory

    def path(self, name):
        return os.path.join(self.directory, name)

    def bash(self, command, timeout=None):
        arguments = {"command": f"cd {self.directory} && {command}", "description": "run a command"}
        if timeout:
            arguments["timeout"] = timeout
        return (yield ("Bash", arguments))

    def background(self, command):
        arguments = {"command": f"cd {self.directory} && {command}", "run_in_background": True, "description": "start"}
        text = yield ("Bash", arguments)
        identifier = re.search(r"ID: (\w+)", text)[1]
        return identifier, re.search(r"written to: (\S+?)\.? ", text)[1]

    def wait_for(self, started, pattern):
        """Looks at the output until it has the pattern, with pauses as a model makes them."""
        while True:
            text = yield ("Read", {"file_path": started[1]})
            if re.search(pattern, text):
                return text
            yield from self.bash("sleep 2")

    def stop(self, started):
        return (yield ("TaskStop", {"task_id": started[0]}))

    def read(self, name, **arguments):
        return (yield ("Read", {"file_path": self.path(name), **arguments}))

    def write(self, name, content):
        return (yield ("Write", {"file_path": self.path(name), "content": content}))

    def edit(self, name, old, new, every=False):
        arguments = {"file_path": self.path(name), "old_string": old, "new_string": new, "replace_all": every}
        return (yield ("Edit", arguments))

    def change(self, changes):
        """Several files: each is read, because its tool requires that, and then edited."""
        for name, old, new in changes:
            yield from self.read(name)
            yield from self.edit(name, old, new)

    def grep(self, pattern, context=0):
        arguments = {"pattern": pattern, "path": self.directory, "output_mode": "content", "-n": True}
        if context:
            arguments["-C"] = context
        return (yield ("Grep", arguments))

    def files_with(self, pattern):
        return (yield ("Grep", {"pattern": pattern, "path": self.directory, "output_mode": "files_with_matches"}))

    def glob(self, pattern):
        return (yield ("Glob", {"pattern": pattern, "path": self.directory}))

    def converse(self, command, answers, pattern):
        """A program that asks: its input must be known before it starts."""
        typed = "".join(f"{answer}\\n" for answer in answers)
        yield from self.bash(f"{command} </dev/null")
        text = yield from self.bash(f"printf '{typed}' | {command}")
        assert re.search(pattern, text), text


class Rex(Local):
    """The tools of `rex mcp`."""

    name = "rex"

    def call(self, tool, **arguments):
        return (yield (f"mcp__rex__{tool}", arguments))

    def bash(self, command, timeout=None):
        arguments = {"command": command, "cwd": self.directory}
        if timeout:
            arguments["timeout_ms"] = timeout
        return (yield from self.call("bash", **arguments))

    def background(self, command):
        text = yield from self.call("bash", command=command, cwd=self.directory, background=True)
        self.first_output = text.split("\n[it continues")[0].partition("\n")[2]
        return re.search(r"p_\w+", text)[0]

    def wait_for(self, started, pattern):
        if re.search(pattern, self.first_output):
            return self.first_output
        text = yield from self.call("bash_output", process_id=started, until=pattern, wait_ms=60000)
        assert re.search(pattern, text), text
        return text

    def stop(self, started):
        return (yield from self.call("kill", process_id=started))

    def read(self, name, **arguments):
        return (yield from self.call("read", path=self.path(name), **arguments))

    def write(self, name, content):
        return (yield from self.call("write", path=self.path(name), content=content))

    def edit(self, name, old, new, every=False):
        arguments = {"path": self.path(name), "old_string": old, "new_string": new, "replace_all": every}
        return (yield from self.call("edit", **arguments))

    def change(self, changes):
        """Several files in one patch."""
        files = "".join(f"*** Update File: {self.path(name)}\n@@\n-{old}\n+{new}\n" for name, old, new in changes)
        return (yield from self.call("patch", patch_text=f"*** Begin Patch\n{files}*** End Patch\n"))

    def grep(self, pattern, context=0):
        arguments = {"context": context} if context else {}
        return (yield from self.call("grep", pattern=pattern, path=self.directory, **arguments))

    def files_with(self, pattern):
        return (yield from self.call("grep", pattern=pattern, path=self.directory, output_mode="files"))

    def glob(self, pattern):
        return (yield from self.call("glob", pattern=pattern, path=self.directory))

    def converse(self, command, answers, pattern):
        started = yield from self.background(command)
        yield from self.wait_for(started, r"\?")
        for answer in answers:
            yield from self.call("bash_input", process_id=started, data=f"{answer}\n")
        text = yield from self.wait_for(started, pattern)
        assert re.search(pattern, text), text


def long_build(tools):
    started = yield from tools.background("sh build.sh")
    yield from tools.wait_for(started, "build (succeeded|failed)")


def failing_test(tools):
    text = yield from tools.bash("python3 test_sum.py")
    assert "FAILED" in text, text
    yield from tools.change([("sum.py", "    return a - b", "    return a + b")])
    text = yield from tools.bash("python3 test_sum.py")
    assert "OK" in text, text


def ambiguous_edit(tools):
    yield from tools.read("settings.ini")
    yield from tools.edit("settings.ini", "enabled = no", "enabled = yes")
    text = yield from tools.edit("settings.ini", "[cache]\nenabled = no", "[cache]\nenabled = yes")
    assert "rror" not in text, text


def interactive_prompt(tools):
    yield from tools.converse("sh ask.sh", ["demo", "y"], "created demo")


def server_in_background(tools):
    started = yield from tools.background("python3 -u server.py")
    text = yield from tools.wait_for(started, r"listening on \d+")
    port = re.search(r"listening on (\d+)", text)[1]
    text = yield from tools.bash(f"curl -s http://127.0.0.1:{port}/")
    assert "hello" in text, text
    yield from tools.stop(started)


def large_log(tools):
    text = yield from tools.grep("panic: ")
    assert "index out of range" in text, text


def large_log_printed(tools):
    yield from tools.bash("cat service.log")
    text = yield from tools.grep("panic: ")
    assert "index out of range" in text, text


def binary_file(tools):
    yield from tools.read("data.bin")
    text = yield from tools.bash("xxd data.bin | head -2")
    assert "00000000" in text, text


def crlf(tools):
    yield from tools.read("dos.txt")
    yield from tools.edit("dos.txt", "colour = red", "colour = blue")
    text = yield from tools.bash("grep -c $'\\r' dos.txt")
    assert "3" in text, text


def rename_across_files(tools):
    yield from tools.files_with("old_name")
    for number in range(4):
        if isinstance(tools, Rex):
            yield from tools.edit(f"module{number}.py", "old_name", "new_name", every=True)
        else:
            yield from tools.read(f"module{number}.py")
            yield from tools.edit(f"module{number}.py", "old_name", "new_name", every=True)
    text = yield from tools.bash("grep -rc old_name --include='*.py' . | grep -v ':0' | wc -l")
    assert "0" in text, text


def part_of_a_file(tools):
    text = yield from tools.read("long.txt", offset=5000, limit=20)
    assert "line 5000" in text, text


def find_files(tools):
    text = yield from tools.glob("**/*.toml")
    assert "deep.toml" in text, text


def search_with_context(tools):
    text = yield from tools.grep("def target", context=2)
    assert "the answer" in text, text


def new_file(tools):
    yield from tools.write("hello.py", "print('hello')\n")
    text = yield from tools.bash("python3 hello.py")
    assert "hello" in text, text


def three_files(tools):
    yield from tools.change([(f"config{number}.txt", "level = 1", "level = 2") for number in range(3)])


def progress_bar(tools):
    text = yield from tools.bash("sh progress.sh")
    if "installed" not in text:
        text = yield from tools.bash("sh progress.sh | tail -c 200")
    assert "installed" in text, text


def repeated_warnings(tools):
    text = yield from tools.bash("sh warnings.sh")
    if "3 errors" not in text:
        # The end was cut.
        text = yield from tools.bash("sh warnings.sh | tail -n 5")
    assert "3 errors" in text, text


def wait_for_a_pattern(tools):
    started = yield from tools.background("sh watch.sh")
    yield from tools.wait_for(started, "ready")
    yield from tools.stop(started)


def timeout(tools):
    yield from tools.bash("echo begun; sleep 60", timeout=2000)


def streams_in_order(tools):
    text = yield from tools.bash("sh streams.sh")
    assert text.index("out 5") > text.index("err 4"), text


TASKS = [
    long_build, failing_test, ambiguous_edit, interactive_prompt, server_in_background, large_log, large_log_printed,
    binary_file, crlf, rename_across_files, part_of_a_file, find_files, search_with_context, new_file, three_files,
    progress_bar, repeated_warnings, wait_for_a_pattern, timeout, streams_in_order,
]


def prepare(directory):
    """Writes the files of every task."""
    files = {
        "long_build/build.sh": "for i in $(seq 1 400); do echo \"[$i/400] compiling module_$i.c\"; sleep 0.02; done\n"
                               "echo 'build succeeded'\n",
        "failing_test/sum.py": "def add(a, b):\n    return a - b\n",
        "failing_test/test_sum.py": "import unittest\nfrom sum import add\n\n\nclass Sum(unittest.TestCase):\n"
                                    "    def test_add(self):\n        self.assertEqual(add(2, 2), 4)\n\n\nunittest.main()\n",
        "ambiguous_edit/settings.ini": "[cache]\nenabled = no\n\n[proxy]\nenabled = no\n\n[log]\nenabled = no\n",
        "interactive_prompt/ask.sh": "printf 'name? '; read name || exit 1\nprintf 'create it (y/n)? '; read yes || exit 1\n"
                                     "echo \"created $name\"\n",
        "server_in_background/server.py": "import http.server\n\n\nclass Hello(http.server.BaseHTTPRequestHandler):\n"
                                          "    def do_GET(self):\n        self.send_response(200)\n        self.end_headers()\n"
                                          "        self.wfile.write(b'hello')\n\n\n"
                                          "server = http.server.HTTPServer(('127.0.0.1', 0), Hello)\n"
                                          "print('listening on', server.server_port)\nserver.serve_forever()\n",
        "large_log/service.log": log(), "large_log_printed/service.log": log(),
        "crlf/dos.txt": "name = a\r\ncolour = red\r\nsize = 3\r\n",
        "part_of_a_file/long.txt": "".join(f"line {number}\n" for number in range(1, 20001)),
        "find_files/a/b/c/deep.toml": "", "find_files/top.toml": "", "find_files/other.txt": "",
        "search_with_context/code.py": "# the question\n\ndef target():\n    # the answer\n    return 42\n",
        "progress_bar/progress.sh": "for i in $(seq 0 1000); do printf '\\rdownloading %d %%' $((i / 10)); done\n"
                                    "echo; echo installed\n",
        "repeated_warnings/warnings.sh": "for i in $(seq 1 3000); do echo 'warning: field is never read'; done\necho '3 errors'\n",
        "wait_for_a_pattern/watch.sh": "for i in $(seq 1 60); do echo \"waiting for the database $i\"; sleep 0.1; done\n"
                                       "echo ready\nsleep 600\n",
        "streams_in_order/streams.sh": "for i in 1 2 3 4 5 6; do echo \"out $i\"; echo \"err $i\" >&2; done\n",
        "timeout/empty": "", "new_file/empty": "",
    }
    for number in range(4):
        files[f"rename_across_files/module{number}.py"] = "def old_name():\n    pass\n\n\nold_name()\nold_name()\n"
    for number in range(3):
        files[f"three_files/config{number}.txt"] = f"# part {number}\nlevel = 1\n"
    for name, content in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", newline="") as file:
            file.write(content)
    os.makedirs(os.path.join(directory, "binary_file"), exist_ok=True)
    with open(os.path.join(directory, "binary_file/data.bin"), "wb") as file:
        file.write(bytes(range(256)) * 64)


def log():
    lines = (f"2026-11-17T10:00:{number % 60:02} INFO request {number} took {number % 97} ms\n" for number in range(100_000))
    text = "".join(lines)
    return text[: len(text) // 2] + "panic: index out of range\n" + text[len(text) // 2:]
