"""Calls the gateway at argv[1] with the Python SDKs. Each check ends the program if it fails."""
import json, os, sys, urllib.request

import anthropic, boto3, botocore.config, botocore.exceptions, openai
from google import genai
from google.genai import errors, types

BASE = sys.argv[1]
os.environ.update(AWS_ACCESS_KEY_ID="local", AWS_SECRET_ACCESS_KEY="local", AWS_DEFAULT_REGION="us-east-1")
USAGE = dict(Input=700, CacheRead=90, Output=50)
HI = [{"role": "user", "content": "hi"}]


def check(name, call, calls, answers=(USAGE,), error=None, status=None):
    """Makes a call. The provider must have had so many requests, and settlements be its bill."""
    urllib.request.urlopen(urllib.request.Request(BASE + "/_next", json.dumps(list(answers)).encode(), method="POST"))
    try:
        call()
        told = None
    except Exception as e:
        told = e
    report = json.load(urllib.request.urlopen(BASE + "/_check"))
    if error is None and told is not None or error is not None and not isinstance(told, error):
        sys.exit(f"FAIL {name}: {type(told).__name__}: {told}")
    got = told is not None and (getattr(told, "status_code", None) or getattr(told, "code", None))
    if status and got and got != status:
        sys.exit(f"FAIL {name}: status {got}, not {status}")
    if report["calls"] != calls or report["wrong"]:
        sys.exit(f"FAIL {name}: {report}, {calls} calls expected")
    print("  ok", name)


def bedrock(who):
    client = boto3.client("bedrock-runtime", endpoint_url=BASE, config=botocore.config.Config(retries={"mode": "standard"}))
    client.meta.events.register("before-send.bedrock-runtime.*", lambda request, **_: request.headers.__setitem__("X-Who", who))
    return client


def forms(who):
    """All forms of calls: name, call, typed error of a denial."""
    head = {"X-Who": who}
    o = openai.OpenAI(base_url=BASE + "/v1", api_key="k", default_headers=head)
    a = anthropic.Anthropic(base_url=BASE, api_key="k", default_headers=head)
    g = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=BASE, headers=head))
    b = bedrock(who)
    chat = dict(model="gpt", max_tokens=100, messages=HI)
    message = dict(model="claude", max_tokens=100, messages=HI)
    gemini = dict(model="gemini", contents="hi", config=types.GenerateContentConfig(max_output_tokens=100))
    converse = dict(modelId="anthropic.bedrock", messages=[{"role": "user", "content": [{"text": "hi"}]}], inferenceConfig={"maxTokens": 100})
    return [
        ("openai chat", lambda: o.chat.completions.create(**chat), openai.RateLimitError),
        ("openai chat, streamed", lambda: list(o.chat.completions.create(stream=True, **chat)), openai.RateLimitError),
        ("openai responses", lambda: o.responses.create(model="gpt", input="hi", max_output_tokens=100), openai.RateLimitError),
        ("openai responses, streamed", lambda: list(o.responses.create(model="gpt", input="hi", max_output_tokens=100, stream=True)), openai.RateLimitError),
        ("anthropic", lambda: a.messages.create(**message), anthropic.RateLimitError),
        ("anthropic, streamed", lambda: list(a.messages.create(stream=True, **message)), anthropic.RateLimitError),
        ("google-genai", lambda: g.models.generate_content(**gemini), errors.ClientError),
        ("google-genai, streamed", lambda: list(g.models.generate_content_stream(**gemini)), errors.ClientError),
        ("boto3", lambda: b.converse(**converse), botocore.exceptions.ClientError),
        ("boto3, streamed", lambda: list(b.converse_stream(**converse)["stream"]), botocore.exceptions.ClientError),
    ]


for name, call, _ in forms("rich"):
    check(name, call, 1)
for name, call, error in forms("broke"):
    check(name + ": denied", call, 0, (), error, 429)
for name, call, error in forms("rich"):
    if name.startswith(("openai", "anthropic")):
        check(name + ": an outage is told", call, 3, [dict(Status=500)] * 3, (openai.InternalServerError, anthropic.InternalServerError))
        check(name + ": a pause that passes is retried", call, 2, [dict(Status=429, RetryAfter=1_000_000_000), USAGE])
