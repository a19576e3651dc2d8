#!/usr/bin/env python3
"""An agent in a page: Anthropic's messages API, and the tools of rex.

    ANTHROPIC_API_KEY=… ANTHROPIC_BASE_URL=https://… ANTHROPIC_MODEL=… ./anthropic_loop.py "make the tests pass"
"""

import json
import os
import sys
import urllib.request

import rex_tools

MOST_TURNS = 50


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
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def run(task):
    tools = rex_tools.schemas("anthropic")
    messages = [{"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        answer = ask(messages, tools)
        messages.append({"role": "assistant", "content": answer["content"]})
        if answer["stop_reason"] != "tool_use":
            return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        results = []
        for block in answer["content"]:
            if block["type"] == "tool_use":
                print(f"> {block['name']} {json.dumps(block['input'])}", file=sys.stderr)
                text, went_well = rex_tools.call(block["name"], block["input"])
                result = {"type": "tool_result", "tool_use_id": block["id"], "content": text}
                results.append(result if went_well else {**result, "is_error": True})
        messages.append({"role": "user", "content": results})
    return f"not done after {MOST_TURNS} turns"


if __name__ == "__main__":
    print(run(" ".join(sys.argv[1:])))
