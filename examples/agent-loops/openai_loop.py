#!/usr/bin/env python3
"""A minimal agent: any server with OpenAI's chat completions API and the tools of rex.

    OPENAI_API_KEY=… OPENAI_BASE_URL=https://…/v1 OPENAI_MODEL=… ./openai_loop.py "make the tests pass"
"""

import json
import os
import sys
import urllib.request

import rex_tools

MAX_TURNS = 50


def ask(messages, tools):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        data=json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)["choices"][0]["message"]


def run(task):
    tools = rex_tools.schemas("openai")
    messages = [
        {"role": "system", "content": "You work on a machine through tools. Look before you change, test after."},
        {"role": "user", "content": task},
    ]
    for _ in range(MAX_TURNS):
        message = ask(messages, tools)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"] or "{}")
            print(f"> {name} {json.dumps(arguments)}", file=sys.stderr)
            text, _ = rex_tools.call(name, arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return f"not finished after {MAX_TURNS} turns"


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:])))
