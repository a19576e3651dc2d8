#!/usr/bin/env python3
"""A minimal agent: Anthropic's messages API and the tools of rex.

    ANTHROPIC_API_KEY=… ANTHROPIC_BASE_URL=https://… ANTHROPIC_MODEL=… ./anthropic_loop.py "make the tests pass"
"""

import json
import os
import sys
import urllib.request

import rex_tools

MAX_TURNS = 50


def ask(messages, tools):
    body = {
        "model": os.environ["ANTHROPIC_MODEL"],
        "max_tokens": 8192,
        "system": "You work on a machine through tools. Look before you change, test after.",
        "messages": messages,
        "tools": tools,
    }
    request = urllib.request.Request(
        os.environ["ANTHROPIC_BASE_URL"].rstrip("/") + "/v1/messages",
        data=json.dumps(body).encode(),
        headers={
            "Content-Type": "application/json",
            "X-Api-Key": os.environ["ANTHROPIC_API_KEY"],
            "Anthropic-Version": "2023-06-01",
        },
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response)


def run(task):
    tools = rex_tools.schemas("anthropic")
    messages = [{"role": "user", "content": task}]
    for _ in range(MAX_TURNS):
        response = ask(messages, tools)
        messages.append({"role": "assistant", "content": response["content"]})
        if response["stop_reason"] != "tool_use":
            return "".join(block["text"] for block in response["content"] if block["type"] == "text")
        results = []
        for block in response["content"]:
            if block["type"] == "tool_use":
                print(f"> {block['name']} {json.dumps(block['input'])}", file=sys.stderr)
                text, succeeded = rex_tools.call(block["name"], block["input"])
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": text}
                results.append(result if succeeded else {**result, "is_error": True})
        messages.append({"role": "user", "content": results})
    return f"not finished after {MAX_TURNS} turns"


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:])))
