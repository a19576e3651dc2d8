"""The official Python client against `rex mcp`. Usage: client.py SCENARIO; says `ok SCENARIO` at the end.

REX is the program, HERE the directory to work in. With URL and TOKEN it is reached over HTTP, else on stdio, where
ARGUMENTS are arguments of `rex mcp`. MODE is `legacy` for a version with `initialize`, else 2026-07-28. The scenario `texts` is what an agent receives; the others read the structured content.
"""

import asyncio
import base64
import hashlib
import json
import os
import select
import subprocess
import sys

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.types import ElicitResult

REX, HERE = os.environ["REX"], os.environ["HERE"]
ARGUMENTS = os.environ.get("ARGUMENTS", "").split()
MODE = os.environ.get("MODE", "auto")
VERSION = {"legacy": "2025-11-25", "auto": "2026-07-28"}[MODE]
NAMES = "bash bash_output bash_input kill read write edit patch list glob grep stat".split()
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def server():
    url = os.environ.get("URL")
    if url:
        headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
        return streamable_http_client(url, http_client=create_mcp_http_client(headers=headers))
    return StdioServerParameters(command=REX, args=["mcp", *ARGUMENTS], env=dict(os.environ), cwd=HERE)


def connect(**more):
    return Client(server(), mode=MODE, **more)


def at(name):
    return os.path.join(HERE, name)


def text(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


def without_target(words):
    """Without the line that says where the tools work, which the first result may have."""
    return "".join(line for line in words.splitlines(keepends=True) if not line.startswith("[target "))


async def call(client, tool, arguments, **more):
    result = await client.call_tool(tool, arguments, **more)
    assert not result.is_error, (tool, arguments, text(result))
    return result


def gone(pid, seconds=120):
    """Waits until a process has ended; the kernel tells."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    return bool(select.select([descriptor], [], [], seconds)[0])


async def line_of(fifo):
    return await asyncio.to_thread(lambda: open(fifo).readline().strip())


async def tools():
    async with connect() as client:
        assert client.server_info.name == "rex", client.server_info
        assert client.protocol_version == VERSION, client.protocol_version
        first = await call(client, "list", {})
        where = client.instructions + text(first)
        # In the instructions, unless the target took longer than clients wait for them.
        for fact in ["target local", "host ", "Linux ", "shell bash", "working directory " + HERE]:
            assert fact in where, (fact, where)
        assert "[target" not in text(await call(client, "list", {})), "only once"
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == NAMES
        assert all(tool.input_schema["additionalProperties"] is False for tool in listed)
        hints = {tool.name: tool.annotations for tool in listed}
        assert hints["read"].read_only_hint and hints["bash"].destructive_hint and not hints["kill"].read_only_hint

        ran = await call(client, "bash", {"command": "echo out; echo err >&2; exit 3"})
        assert "out\n" in text(ran) and "err" in text(ran) and text(ran).startswith("[exit code 3, "), text(ran)
        assert ran.structured_content["exit_code"] == 3
        await call(client, "write", {"path": "d/a.txt", "content": "one\ntwo\nthree\n"})
        assert open(at("d/a.txt")).read() == "one\ntwo\nthree\n"
        assert "     2\ttwo" in text(await call(client, "read", {"path": "d/a.txt", "offset": 2, "limit": 1}))
        edited = await call(client, "edit", {"path": "d/a.txt", "old_string": "two", "new_string": "zwei"})
        assert edited.structured_content["replacements"] == 1
        link = next(part for part in edited.content if part.type == "resource_link")
        assert (await client.read_resource(str(link.uri))).contents[0].text == "one\nzwei\nthree\n"
        patch = "*** Begin Patch\n*** Add File: d/b.txt\n+new\n*** End Patch"
        assert (await call(client, "patch", {"patch_text": patch})).structured_content["added"] == [at("d/b.txt")]
        names = [entry["name"] for entry in (await call(client, "list", {"path": "d"})).structured_content["entries"]]
        assert sorted(names) == ["a.txt", "b.txt"], names
        found = await call(client, "glob", {"pattern": "**/*.txt"})
        assert found.structured_content["matches"] == [at("d/a.txt"), at("d/b.txt")], text(found)
        found = (await call(client, "grep", {"pattern": "zwe.", "include": "*.txt"})).structured_content["matches"]
        assert [(match["path"], match["line"]) for match in found] == [(at("d/a.txt"), 2)], found
        assert (await call(client, "stat", {"path": "d/a.txt"})).structured_content["size"] == 15

        started = await call(client, "bash", {"command": "cat; echo end", "background": True})
        process = {"process_id": started.structured_content["process_id"]}
        await call(client, "bash_input", {**process, "data": "hello\n"})
        page = await call(client, "bash_output", {**process, "until": "hello\\n"})
        assert page.structured_content["output"] == "hello\n" and page.structured_content["status"] == "running", page
        await call(client, "bash_input", {**process, "data": "", "eof": True})
        page = await call(client, "bash_output", {**process, "until": "never"})
        assert page.structured_content["output"] == "end\n" and page.structured_content["exit_code"] == 0, page
        started = await call(client, "bash", {"command": "sleep 1000 & echo started; sleep 1000", "background": True})
        process = {"process_id": started.structured_content["process_id"]}
        # Before that, there may be only the shell.
        await call(client, "bash_output", {**process, "cursor": 0, "until": "started"})
        killed = (await call(client, "kill", process)).structured_content
        assert killed["ok"] and len(killed["killed"]) >= 2 and not killed["left"], killed

        for tool, arguments, word in [
            ("bash", {}, "missing argument `command`"),
            ("read", {"path": "d/a.txt", "offset": "x"}, "`offset`"),
            ("read", {"path": "nothing.txt"}, "no such file"),
            ("edit", {"path": "d/a.txt", "old_string": "x" * 9, "new_string": "y"}, "hint: read the file"),
            ("bash_output", {"process_id": "p_nobody"}, "start the command again with bash"),
        ]:
            failed = await client.call_tool(tool, arguments)
            assert failed.is_error and word in text(failed), (tool, text(failed))


async def texts():
    """Without --structured: every result is text only, with the status first and the next call last."""
    async with connect() as client:
        results = []

        async def said(tool, arguments, **more):
            result = await client.call_tool(tool, arguments, **more)
            results.append((tool, result))
            return without_target(text(result))

        def process_of(words):
            return {"process_id": words.split("process ")[1].split()[0]}

        assert (await said("bash", {"command": "echo out"})).endswith(" has ended]\nout")
        assert (await said("bash", {"command": "echo no >&2; exit 3"})).startswith("[exit code 3, process p_")
        long = await said("bash", {"command": "seq 1 100000"})
        assert long.startswith("[exit code 0, ") and " bytes of output omitted]\n1\n2\n" in long, long[:200]
        last = long.splitlines()[-1]
        assert last.startswith("[next: bash_output {"), last
        next_call, _ = json.JSONDecoder().raw_decode(last[len("[next: bash_output ") :])
        page = await said("bash_output", next_call)
        assert page.startswith("[exit code 0, ") and f", bytes {next_call['cursor']} to " in page, page[:200]
        running = await said("bash", {"command": "cat", "background": True})
        assert running.startswith("[no exit code yet, ") and "next: bash_output {" in running, running
        process = process_of(running)
        await said("bash_input", {**process, "data": "hello\n"})
        echoed = await said("bash_output", {**process, "until": "hello"})
        assert echoed.startswith("[no exit code yet, ") and echoed.endswith(", until matched]\nhello"), echoed
        assert "was killed" in await said("kill", process)
        await said("write", {"path": "d/a.txt", "content": "one\ntwo\n" * 2000})
        await said("edit", {"path": "d/a.txt", "old_string": "one", "new_string": "1", "replace_all": True})
        assert "[next: read {" in await said("read", {"path": "d/a.txt"})
        assert "[next: grep {" in await said("grep", {"pattern": "two"})
        for tool, arguments in [("list", {}), ("glob", {"pattern": "**"}), ("stat", {"path": "d"}), ("read", {"path": "x"})]:
            await said(tool, arguments)
        for tool, result in results:
            assert result.structured_content is None, (tool, result)
            assert [part.type for part in result.content] == ["text"], (tool, result)
            assert len(text(result).encode()) <= 50_000 and len(text(result).splitlines()) <= 1_900, tool


async def order():
    """1,000 lines, alternating between two streams, 100 times."""
    command = "for i in {1..500}; do echo out $i; echo err $i >&2; done"
    expected = [f"{stream} {i}" for i in range(1, 501) for stream in ("out", "err")]
    async with connect() as client:
        for run in range(100):
            lines = without_target(text(await call(client, "bash", {"command": command}))).splitlines()
            assert lines[0].startswith("[exit code 0, ") and lines[1:] == expected, (run, lines)


async def cancel():
    async with connect() as client:
        os.mkfifo(at("pids"))
        command = {"command": "sleep 1000 & echo $$ $! > pids; wait"}
        running = asyncio.ensure_future(client.call_tool("bash", command))
        pids = [int(pid) for pid in (await line_of(at("pids"))).split()]
        assert not gone(pids[0], 0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert all([await asyncio.to_thread(gone, pid) for pid in pids]), "the command outlived its call"
        assert "still here" in text(await call(client, "bash", {"command": "echo still here"}))


async def progress():
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))

    async with connect() as client:
        command = {"command": "echo first line; echo step 7; sleep 5"}
        await call(client, "bash", command, progress_callback=hear)
    assert len(heard) >= 2 and heard[0][0] < heard[1][0] and heard[-1][1] == "step 7", heard


async def pages():
    async with connect() as client:
        command = "seq -f 'Zeile %010.0f ✓ äöü' 1 2000000"
        ran = await call(client, "bash", {"command": command})
        seen = ran.structured_content
        assert seen["truncated"] and seen["end"] > 50_000_000 and len(text(ran).encode()) < 40_000, seen["end"]
        assert "Zeile 0000000001 ✓" in text(ran) and "Zeile 0002000000 ✓" in text(ran)
        assert f'"cursor":{seen["cut"]["from"]}' in text(ran) and f"[{seen['cut']['bytes']} bytes, " in text(ran)
        digest, cursor = hashlib.sha256(), 0
        while cursor < seen["end"]:
            page = await call(client, "bash_output", {"process_id": seen["process_id"], "cursor": cursor})
            page = page.structured_content
            assert page["start"] == cursor < page["cursor"] and page["lost"] == 0, (cursor, page["start"])
            digest.update(page["output"].encode())
            cursor = page["cursor"]
        expected = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout
        assert cursor == len(expected) and digest.digest() == hashlib.sha256(expected).digest()
        found = await call(client, "grep", {"pattern": "0001234567", "path": "process:" + seen["process_id"]})
        assert found.structured_content["matches"][0]["line"] == 1234567, text(found)
        peak = max(peaks_of_children(), default=0)
        assert peak < 40_000, f"{peak} KiB for a 50 MB output"


def peaks_of_children():
    """Most memory each of our children had, in KiB; none over HTTP."""
    for task in os.listdir("/proc/self/task"):
        for pid in open(f"/proc/self/task/{task}/children").read().split():
            for line in open(f"/proc/{pid}/status"):
                if line.startswith("VmHWM"):
                    yield int(line.split()[1])


async def background():
    """With REX_MCP_WAIT_MS: a command that takes longer goes on, and ends with the server."""
    os.mkfifo(at("pids"))
    os.mkfifo(at("go"))
    async with connect() as client:
        ran = await call(client, "bash", {"command": "echo early; cat go; echo late; exit 5"})
        seen = ran.structured_content
        assert seen["status"] == "running" and seen["output"] == "early\n", text(ran)
        assert "continues in the background" in text(ran) and "bash_output" in text(ran), text(ran)
        await asyncio.to_thread(lambda: open(at("go"), "w").close())
        process, output = {"process_id": seen["process_id"]}, ""
        while seen["status"] == "running":
            seen = (await call(client, "bash_output", process)).structured_content
            output += seen["output"]
        assert output == "late\n" and seen["exit_code"] == 5, (output, seen)
        again = await call(client, "bash_output", {**process, "cursor": 0})
        assert again.structured_content["output"] == "early\nlate\n", text(again)
        await call(client, "bash", {"command": "echo $$ > pids; exec sleep 1000", "background": True})
        pid = int(await line_of(at("pids")))
        assert not gone(pid, 0)
    assert await asyncio.to_thread(gone, pid), "it outlived its server"


async def image():
    open(at("dot.png"), "wb").write(PNG)
    async with connect() as client:
        shown = await call(client, "read", {"path": "dot.png"})
        picture = next(part for part in shown.content if part.type == "image")
        assert picture.mime_type == "image/png" and base64.b64decode(picture.data) == PNG


async def elicit():
    asked = []
    waiting = asyncio.Event()
    answers = [
        ElicitResult(action="accept", content={}),
        ElicitResult(action="decline"),
        ElicitResult(action="accept", content={"scope": "session"}),
        ElicitResult(action="accept", content={}),
    ]

    async def answer(context, params):
        # The client is told that the call waits for the person, and not only after a while. In 2026-07-28, the call has
        # ended with the question.
        if MODE == "legacy":
            await waiting.wait()
        asked.append(params.message)
        response = answers[len(asked) - 1]
        if response.action == "decline":
            # As slowly as a person: a client that answers sooner counts as one that declines by itself.
            await asyncio.sleep(1)
        return response

    async def hear(progress, total, message):
        if message == "waiting for approval":
            waiting.set()

    async with connect(elicitation_callback=answer) as client:
        assert os.path.exists(at("marks")) is False
        await call(client, "bash", {"command": "touch marks"}, progress_callback=hear)
        assert os.path.exists(at("marks")) and "touch marks" in asked[0] and "touches" in asked[0], asked
        for fact in ["host: ", "(target local)", "directory: " + HERE, "denied without an answer at: "]:
            assert fact in asked[0], asked[0]
        assert "{" not in asked[0], asked[0]
        refused = await client.call_tool("bash", {"command": "touch marks2"})
        assert refused.is_error and not os.path.exists(at("marks2")), text(refused)
        said = text(refused)
        assert "the user denied it" in said and "by itself" not in said, said
        assert "stdio" not in said and "hint: " in said, said
        await call(client, "bash", {"command": "touch marks3"})
        await call(client, "bash", {"command": "touch marks4"})
        assert len(asked) == 3 and os.path.exists(at("marks4")), asked
        with open(at("asked.txt"), "w") as file:
            file.write("one\ntwo\n")
        await call(client, "write", {"path": "asked.txt", "content": "one\nzwei\n"})
        assert len(asked) == 4 and "rule: writes" in asked[3], asked
        assert "-two\n+zwei\n" in asked[3] and at("asked.txt") in asked[3], asked[3]
    async with connect() as client:
        refused = await client.call_tool("bash", {"command": "touch marks5"})
        assert refused.is_error and not os.path.exists(at("marks5")), text(refused)


async def detach():
    """A detached job outlives its server, and the next one finds it."""
    os.mkfifo(at("pids"))
    async with connect() as client:
        job = {"command": "echo $$ > pids; echo started; exec sleep 1000", "detach": True}
        started = await call(client, "bash", job)
        assert "also after this server has stopped" in text(started), text(started)
        process = {"process_id": started.structured_content["process_id"]}
        pid = int(await line_of(at("pids")))
    assert not gone(pid, 0), "it ended with its server"
    async with connect() as client:
        page = await call(client, "bash_output", {**process, "until": "started"})
        assert "started" in text(page) and page.structured_content["status"] == "running", text(page)
        assert (await call(client, "kill", process)).structured_content["ok"]
    assert await asyncio.to_thread(gone, pid)


async def switch():
    def use(target):
        subprocess.run([REX, "target", "use", target], check=True, cwd=HERE, stdout=subprocess.DEVNULL)

    async with connect() as client:
        for target in ["one", "two", "one"]:
            use(target)
            ran = await call(client, "bash", {"command": "pwd; cat name"})
            assert ran.structured_content["output"].split("\n")[1] == target, text(ran)
            first, second = text(ran).splitlines()[:2]
            assert first.startswith("[exit code 0, "), text(ran)
            assert second.startswith(f"[target {target} (unix:") and second.endswith(f"root-{target}]"), text(ran)
            ran = await call(client, "bash", {"command": "pwd"})
            assert text(ran).startswith("[exit code 0"), text(ran)


if __name__ == "__main__":
    name = sys.argv[1]
    asyncio.run(asyncio.wait_for(globals()[name](), 1800))
    print("ok", name)
