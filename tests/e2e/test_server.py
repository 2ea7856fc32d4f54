"""The HTTP server over the scripted engine, on real sockets.

    test_server.py [PROGRAM] [NAME...]      all groups, or those whose names contain one of the words

One line per check, "ok NAME" or "FAIL NAME: why"; the last line counts; exit code 1 when something failed. Scripts in
messages ("[[say=A|B]]") are described in script_engine.h."""
import json, os, random, re, select, socket, sys, threading, time, traceback

from client import Answer, Client, HOST, Server, ask, cases, expand, request_bytes, sse_events, valid

PROGRAM = os.path.join("build", "release", "skiff-script")
CHAT = "/v1/chat/completions"
SCHEMA = cases("fixtures/chunk.schema.json")
counts = {"ok": 0, "FAIL": 0, "skip": 0}
groups = []


def group(f):
    groups.append(f)
    return f


def check(name, good, detail=""):
    word = "ok" if good else "FAIL"
    counts[word] += 1
    print(word, name + ("" if good or detail == "" else ": %s" % (detail,)), flush=True)


def skip(name, why):
    counts["skip"] += 1
    print("skip", name + ": " + why, flush=True)


class serving:
    """A ready server for a with-block; at its end the process must still live and leave with the given code."""

    def __init__(self, name, *flags, code=0):
        self.name, self.flags, self.code = name, flags, code

    def __enter__(self):
        self.server = Server(PROGRAM, *self.flags).wait_ready()
        return self.server

    def __exit__(self, kind, value, trace):
        try:
            code = self.server.stop()
            check(self.name + "/server ends well", code == self.code, "exit code %d" % code)
        except AssertionError as e:
            check(self.name + "/server ends well", False, e)


def say(text="Say hi.", **more):
    return {"messages": [{"role": "user", "content": text}], **more}


def chat(s, text="Say hi.", headers=None, timeout=15.0, **more):
    return ask(s.port, "POST", CHAT, say(text, **more), headers, timeout=timeout)


def alive(s):
    """An ordinary request is served."""
    a = chat(s)
    return a.status == 200 and a.json()["choices"][0]["message"]["content"] == "Hello there."


def chunks(a):
    """Data events of a stream as objects; the end marker stays a string."""
    return [e if e == "[DONE]" else json.loads(e) for e in a.events()]


def text_of(events, member="content"):
    return "".join(e["choices"][0]["delta"].get(member) or "" for e in events if e != "[DONE]" and e.get("choices"))


def finish_of(events):
    return [e["choices"][0]["finish_reason"] for e in events if e != "[DONE]" and e.get("choices") and e["choices"][0]["finish_reason"]]


def kinds(events):
    """delta, finish, usage, error, progress, [DONE]"""
    names = []
    for e in events:
        if e == "[DONE]":
            names.append(e)
        elif "error" in e:
            names.append("error")
        elif "prompt_progress" in e:
            names.append("progress")
        elif not e["choices"]:
            names.append("usage")
        else:
            names.append("finish" if e["choices"][0]["finish_reason"] else "delta")
    return names


def matches(names, pattern):
    word = " ".join(names) + " "
    regex = "".join("(?:delta ){%s}" % ("1,}" if p.endswith("+") else "0,}") [:-1] + "}" if p[:5] == "delta" else re.escape(p) + " " for p in pattern)
    regex = regex.replace("{1,}}", "{1,}").replace("{0,}}", "{0,}")
    return re.fullmatch(regex, word) is not None


# ------------------------------------------------------------------------------------------------- shape of answers


@group
def answers():
    with serving("answers") as s:
        a = chat(s)
        j = a.json()
        choice = j["choices"][0]
        check("answers/whole status and type", a.status == 200 and a.headers["content-type"] == "application/json")
        check("answers/whole object", j["object"] == "chat.completion" and j["id"].startswith("chatcmpl-") and j["model"] == "script")
        check("answers/whole message", choice["message"] == {"role": "assistant", "content": "Hello there.", "refusal": None}, choice)
        check("answers/whole finish", choice["finish_reason"] == "stop" and isinstance(choice["stop_reason"], int) and choice["logprobs"] is None)
        u, t = j["usage"], j["timings"]
        check("answers/usage adds up", u["prompt_tokens"] + u["completion_tokens"] == u["total_tokens"] and u["completion_tokens"] > 1)
        check("answers/usage details", u["prompt_tokens_details"]["cached_tokens"] == 0 and u["completion_tokens_details"]["accepted_prediction_tokens"]
              == t["draft_n_accepted"] and u["completion_tokens_details"]["rejected_prediction_tokens"] == t["draft_n"] - t["draft_n_accepted"])
        names = "cache_n prompt_n prompt_ms prompt_per_token_ms prompt_per_second predicted_n predicted_ms predicted_per_token_ms " \
                "predicted_per_second draft_n draft_n_accepted draft_steps accepted_per_position queue_ms template_ms tokenize_ms " \
                "first_token_ms step_ms_p50 step_ms_p90 step_ms_p99"
        check("answers/timings members", all(n in t for n in names.split()), t)
        check("answers/timings count", t["prompt_n"] == u["prompt_tokens"] and t["predicted_n"] == u["completion_tokens"])

        a = chat(s, "[[think=We|are~Now_ say=A|B]]", stream=True, reasoning_effort="high")
        ev = chunks(a)
        check("stream/schema", all(valid(SCHEMA, e) is None for e in ev[:-1]), [valid(SCHEMA, e) for e in ev[:-1]])
        check("stream/order", kinds(ev) == ["delta"] * (len(ev) - 2) + ["finish", "[DONE]"], kinds(ev))
        check("stream/role with the first piece only", [("role" in e["choices"][0]["delta"]) for e in ev[:-1]] == [True] + [False] * (len(ev) - 2))
        check("stream/first piece", ev[0]["choices"][0]["delta"] == {"role": "assistant", "content": None, "reasoning_content": "We"}, ev[0])
        check("stream/content key in every delta", all("content" in e["choices"][0]["delta"] for e in ev[:-1]))
        check("stream/texts", text_of(ev, "reasoning_content") == "Weare" and text_of(ev) == "Now AB", ev)
        check("stream/same id, created, model", len({(e["id"], e["created"], e["model"]) for e in ev[:-1]}) == 1)
        check("stream/timings at the end only", ["timings" in e for e in ev[:-1]] == [False] * (len(ev) - 2) + [True])
        both = [f for f in a.frames if b"are" in f and b"Now " in f]
        check("stream/both kinds of a round in one write, reasoning first", len(both) == 1 and both[0].index(b"are") < both[0].index(b"Now "), a.frames)

        a = chat(s, "[[say=A|B|C|D|E step=40]]", stream=True)
        check("stream/one chunk per round", len(a.frames) >= 6 and all(len(sse_events(f)) == 1 for f in a.frames[:5]), [len(f) for f in a.frames])

        a = chat(s, "[[say=h\u00e9|\u4f60\u597d|\U0001f638]]", stream=True)
        check("stream/text beyond ASCII", text_of(chunks(a)) == "h\u00e9\u4f60\u597d\U0001f638")
        for name, stop in (("string", "CD"), ("array", ["zz", "CD"])):
            j = chat(s, "[[say=AB|C|DE]]", stop=stop).json()["choices"][0]
            check("stop/" + name, (j["message"]["content"], j["finish_reason"], j["stop_reason"]) == ("AB", "stop", "CD"), j)
        ev = chunks(chat(s, "[[say=AB|C|DE]]", stop="CD", stream=True))
        check("stop/stream", text_of(ev) == "AB" and finish_of(ev) == ["stop"] and ev[-2]["choices"][0]["stop_reason"] == "CD", ev)
        for name in ("max_tokens", "max_completion_tokens"):
            j = chat(s, "[[say=A|B|C|D|E]]", **{name: 3}).json()
            check("length/" + name, j["choices"][0]["finish_reason"] == "length" and j["usage"]["completion_tokens"] == 3, j)
        j = chat(s, "[[say=A|B|C|D|E]]", max_tokens=4, max_completion_tokens=2).json()
        check("length/the smaller wins", j["usage"]["completion_tokens"] == 2)


@group
def options():
    """Members of the request that change the answer."""
    with serving("options") as s:
        thinking = {"enable_thinking": True}
        for form, want in (("reasoning_content", {"reasoning_content"}), ("reasoning", {"reasoning"}), ("both", {"reasoning", "reasoning_content"}), (None, {"reasoning_content"})):
            m = chat(s, "[[think=We say=A]]", chat_template_kwargs=thinking, reasoning_format=form).json()["choices"][0]["message"]
            got = {k for k in m if k.startswith("reasoning")}
            check("reasoning_format/%s" % form, got == want and all(m[k] == "We" for k in got) and m["content"] == "A", m)
        m = chat(s, "[[think=We say=A]]", chat_template_kwargs=thinking, reasoning_format="none").json()["choices"][0]["message"]
        check("reasoning_format/none keeps the raw text", "reasoning_content" not in m and "We" in m["content"] and "A" in m["content"], m)

        a = chat(s, "[[say=A|B|C step=5]]", stream=True, timings_per_token=True)
        check("timings_per_token", all("timings" in e for e in chunks(a)[:-1]))
        ev = chunks(chat(s, "[[say=A|B|C step=5]]", stream=True, stream_options={"continuous_usage_stats": True}))
        counted = [e["usage"]["completion_tokens"] for e in ev[:-1]]
        check("continuous_usage_stats", counted == sorted(counted) and counted[0] >= 1, counted)
        j = chat(s, "[[say=A|B|C]]", return_token_ids=True).json()
        check("return_token_ids/whole", len(j["choices"][0]["token_ids"]) == j["usage"]["completion_tokens"], j)
        ev = chunks(chat(s, "[[say=A|B|C]]", return_token_ids=True, stream=True, stream_options={"include_usage": True}))
        ids = [i for e in ev[:-2] for i in e["choices"][0]["token_ids"]]
        check("return_token_ids/stream", ids == j["choices"][0]["token_ids"] and len(ids) == ev[-2]["usage"]["completion_tokens"], ids)
        ev = chunks(chat(s, "[[say=A prefill=200 chunks=4]]", stream=True, return_progress=True))
        progress = [e["prompt_progress"] for e in ev[:-1] if "prompt_progress" in e]
        check("return_progress/events", len(progress) == 3 and all(set(p) == {"total", "cache", "processed", "time_ms", "eta_ms"} for p in progress), progress)
        check("return_progress/before the answer", kinds(ev)[:4] == ["progress"] * 3 + ["delta"], kinds(ev))
        ev = chunks(chat(s, "[[say=A prefill=200 chunks=4]]", stream=True))
        check("return_progress/never unasked", "progress" not in kinds(ev))

        for body, width in (({"mode": "off"}, 0), ({"mode": "fixed", "max": 3}, 3), ({"mode": "fixed", "max": 15}, 7), ({"mode": "auto"}, 7),
                            ({"mode": "auto", "max": 2}, 2), ({"max": 4}, 4), ({}, 7), (None, 7)):
            at = len(s.log)
            chat(s, speculation=body)
            found = s.wait_line(s.log, r"width (\d+)", start=at)
            check("speculation/%s" % json.dumps(body), found and int(found[0].group(1)) == width, found)
        for header, width in (("off", 0), ("fixed=4", 4), ("auto", 7), ("fixed", 7)):
            at = len(s.log)
            chat(s, headers={"x-speculation": header})
            found = s.wait_line(s.log, r"width (\d+)", start=at)
            check("x-speculation/" + header, found and int(found[0].group(1)) == width, found)
        for value in ("fixed=99", "fixed=", "fixed=-1", "sometimes"):
            a = chat(s, headers={"x-speculation": value})
            check("x-speculation/%s refused" % value, a.status == 400 and a.error()["param"].startswith("x-speculation"), a.body)
        big = "x" * (1 << 20)
        a = ask(s.port, "POST", CHAT, say("hi", later=big), timeout=60)
        check("a string of 1 MB in an unknown member", a.status == 200 and a.headers["x-ignored-params"] == "later")


@group
def members():
    """Wrong types and values name the member; what is not honoured is refused unless neutral; the rest is listed."""
    with serving("members") as s:
        wrong = {"model": 1, "stream": "yes", "stream_options": [1], "max_tokens": "5", "max_completion_tokens": 1.5, "stop": 7, "seed": "x", "temperature": "hot",
                 "top_p": [], "top_k": 1.5, "min_p": True, "chat_template_kwargs": "a", "reasoning_effort": [], "reasoning": 3, "reasoning_format": "loud",
                 "ignore_eos": 1, "tool_choice": 1, "parallel_tool_calls": "no", "timings_per_token": 1, "return_progress": "a", "return_token_ids": 0, "speculation": "off", "tools": {}, "messages": "hi",
                 "sse_ping_interval": "5", "response_format": "text", "modalities": "text", "repetition_penalty": "1", "repeat_penalty": [], "presence_penalty": {},
                 "frequency_penalty": True, "logit_bias": 3, "min_tokens": 1.5, "logprobs": 2, "top_logprobs": "3"}
        for name, value in wrong.items():
            a = chat(s, **{name: value})
            check("wrong type/" + name, a.status == 400 and a.error()["param"] == name and a.error()["type"] == "invalid_request_error" and a.error()["code"] is None, a.body)
        bad = [("max_tokens", 0), ("max_tokens", -1), ("temperature", -0.1), ("top_p", 0), ("top_p", 1.1), ("min_p", -1), ("min_p", 2), ("top_k", -2), ("stop", ["a"] * 17),
               ("stop", ["a", ""]), ("stop", [1]), ("messages", []), ("repetition_penalty", 0), ("repetition_penalty", 11), ("repeat_penalty", -1), ("presence_penalty", 2.1),
               ("frequency_penalty", -2.1), ("logit_bias", {"a": 1}), ("logit_bias", {"-1": 1}), ("logit_bias", {"100352": 1}), ("logit_bias", {"": 1}), ("logit_bias", {"5": 101}),
               ("logit_bias", {"5": "1"}), ("logit_bias", {"99999999999999999999": 1}), ("logit_bias", [[5]]), ("logit_bias", [5, 1]), ("logit_bias", [["5", 1]]), ("logit_bias", [[5, None]]),
               ("logit_bias", {str(i): 1 for i in range(1025)}), ("min_tokens", -1), ("top_logprobs", 21), ("top_logprobs", -1), ("top_logprobs", 3)]
        for name, value in bad:
            a = chat(s, **{name: value})
            check("bad value/%s %s" % (name, json.dumps(value)[:20]), a.status == 400 and a.error()["param"] == name, a.body)
        a = chat(s, min_tokens=5, max_tokens=4)
        check("bad value/min_tokens above max_tokens", a.status == 400 and a.error()["param"] == "min_tokens", a.body)
        inner = [("stream_options.include_usage", {"stream_options": {"include_usage": 1}}), ("speculation.mode", {"speculation": {"mode": "x"}}),
                 ("speculation.max", {"speculation": {"max": 16}}), ("chat_template_kwargs.enable_thinking", {"chat_template_kwargs": {"enable_thinking": "false"}}),
                 ("reasoning.effort", {"reasoning": {"effort": {}}}), ("messages", {"messages": None})]
        for param, more in inner:
            a = chat(s, **more)
            check("inner member/" + param, a.status == 400 and a.error()["param"] == param, a.body)
        for name in ("thinking_budget", "thinking_token_budget", "reasoning_budget"):
            check("budget/" + name, chat(s, **{name: 3}).status == 200)
            a = chat(s, **{name: -2})
            check("bad budget/" + name, a.status == 400 and a.error()["param"] == name, a.body)
        off = {"n": 2, "best_of": 3, "suffix": "x", "echo": True, "use_beam_search": True, "audio": {"voice": "a"}, "modalities": ["audio"], "functions": [{"name": "f"}],
               "function_call": {"name": "f"}, "metrics": True, "stream_granularity": "token", "tool_choice": "any", "grammar": "x", "guided_regex": "a", "guided_choice": ["a"], "guided_grammar": "x"}
        for name, value in off.items():
            a = chat(s, **{name: value})
            check("not honoured/" + name, a.status == 400 and a.error()["code"] == "unsupported_parameter" and a.error()["param"] == name, a.body)
        neutral = {"n": 1, "best_of": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "repetition_penalty": 1.0, "logit_bias": {}, "logprobs": False, "top_logprobs": 0,
                   "response_format": {"type": "text"}, "min_tokens": 0, "thinking_budget": -1, "suffix": "", "echo": False, "modalities": ["text"], "functions": [],
                   "function_call": "none", "metrics": False, "stream_granularity": "step", "tool_choice": "auto", "tools": [], "temperature": -0.0, "top_k": -1, "seed": -1, "stop": ""}
        a = chat(s, **neutral)
        check("neutral values pass", a.status == 200, a.body)
        a = chat(s, **{name: None for name in list(off) + list(wrong) if name != "messages"})
        check("null is absent", a.status == 200 and "x-ignored-params" not in a.headers, a.body)
        a = chat(s, user="u", later=1, metadata={"a": 1}, **{"b\u00e4d": 1, "with,comma": 2})
        check("ignored members are listed", a.status == 200 and set(a.headers["x-ignored-params"].split(", ")) == {"user", "later", "metadata"}, a.headers)
        a = chat(s, **{"m%d" % i: 1 for i in range(2000)})
        check("the list of ignored members is bounded", a.status == 200 and len(a.headers["x-ignored-params"]) < 1100)
        a = ask(s.port, "POST", CHAT, {"messages": [{"role": "wizard", "content": "x"}]})
        check("unknown role", a.status == 400 and a.error()["param"].startswith("messages[0]"), a.body)
    with serving("strict", "--strict-params=1", "--strict-model=1", "--alias=org/laguna") as s:
        a = chat(s, model="org/laguna", later=1)
        check("strict/unknown member", a.status == 400 and a.error()["param"] == "later", a.body)
        a = chat(s, model="other")
        check("strict/other model", a.status == 404 and a.error()["code"] == "model_not_found", a.body)
        a = chat(s, model="org/laguna")
        check("strict/right model", a.status == 200 and a.json()["model"] == "org/laguna", a.body)


@group
def choice():
    """Members about how tokens are chosen reach the engine as they are."""
    with serving("choice") as s:
        def seen(**more):
            at = len(s.log)
            a = chat(s, **more)
            found = s.wait_line(s.log, r"choice: (.*)", start=at, timeout=5)
            bias = [m.group(1) for _, l in s.log[at:] for m in [re.search(r"bias (\d+ \S+)$", l)] if m]
            return (found[0].group(1) if found and a.status == 200 else a.body, bias)
        usual = "repeat 0, presence 0, frequency 0, min 0, logprobs -1, bias none"
        for more, want, bias in (({}, usual, []), ({"repetition_penalty": 1.5}, usual.replace("repeat 0", "repeat 1.5"), []), ({"repeat_penalty": 1.25}, usual.replace("repeat 0", "repeat 1.25"), []),
                                 ({"repeat_penalty": 1.25, "repetition_penalty": 2}, usual.replace("repeat 0", "repeat 2"), []), ({"presence_penalty": -2}, usual.replace("presence 0", "presence -2"), []),
                                 ({"frequency_penalty": 0.5}, usual.replace("frequency 0", "frequency 0.5"), []), ({"min_tokens": 7, "max_tokens": 7}, usual.replace("min 0", "min 7"), []),
                                 ({"logprobs": True}, usual.replace("-1", "0"), []), ({"logprobs": True, "top_logprobs": 20}, usual.replace("-1", "20"), []), ({"logprobs": False}, usual, []),
                                 ({"logit_bias": {"7": 1.5, "100351": -100}}, usual.replace(" none", ""), ["7 1.5", "100351 -100"]),
                                 ({"logit_bias": [[7, 100], [7, -2]]}, usual.replace(" none", ""), ["7 100", "7 -2"]), ({"logit_bias": []}, usual, [])):
            check("choice/" + json.dumps(more), seen(**more) == (want, bias), seen(**more))


def entries_of(choices):
    return [e for c in choices if c["logprobs"] for e in c["logprobs"]["content"]]


@group
def logprobs():
    with serving("C39") as s:
        steps = "|".join(["t0_"] + ["_".join("t%d" % i for i in r) + "_" for r in (range(1, 8), range(8, 12), range(12, 20))])
        runs = (("steps", "[[say=%s]]" % steps, {"top_logprobs": 3}), ("half-characters", "[[say=ok_|\U0001f638!|\u00e9]]", {"top_logprobs": 2}),
                ("stop-string", "[[say=alpha_ST|OP_tail|_more]]", {"top_logprobs": 1, "stop": ["STOP"]}), ("without-top", "[[say=a|_b|_c]]", {}),
                ("with-thinking", "[[think=hm|m say=ok]]", {"top_logprobs": 1, "reasoning_effort": "high"}), ("one-token", "[[say=yes|_and|_more]]", {"top_logprobs": 2, "max_tokens": 1}),
                ("cut in mid-character", "[[say=ok_|\U0001f638]]", {"top_logprobs": 1, "max_tokens": 3}), ("raw", "[[think=hm say=ok]]", {"reasoning_format": "none", "reasoning_effort": "high"}))
        for name, script, more in runs:
            more = {"logprobs": True, "return_token_ids": True, **more}
            whole = chat(s, script, **more).json()["choices"][0]
            entries = entries_of([whole])
            ids, hidden = whole["token_ids"], 1 if isinstance(whole["stop_reason"], int) else 0
            if hidden:
                ids = ids[:-1]  # the end token
            if name == "with-thinking":
                ids = ids[-len(entries):]  # reasoning tokens are not listed
                check("C39/with-thinking entries", 0 < len(entries) and "".join(e["token"] for e in entries) == "ok" and whole["message"]["reasoning_content"] == "hmm", whole)
            check("C39/%s: one entry per token" % name, len(entries) == len(ids) > 0, (len(entries), len(ids)))
            data = b"".join(bytes(e["bytes"]) for e in entries)
            text = data.decode("utf-8", "replace")
            check("C39/%s: bytes" % name, text.split("STOP")[0] == whole["message"]["content"] if name == "stop-string" else text == whole["message"]["content"], (data, whole["message"]))
            check("C39/%s: token is its bytes" % name, all(bytes(e["bytes"]).decode("utf-8", "replace") == e["token"] for e in entries), entries)
            check("C39/%s: values" % name, [e["logprob"] for e in entries] == [-(i % 64) / 16 for i in ids], entries)
            check("C39/%s: alternatives" % name, all(len(e["top_logprobs"]) == more.get("top_logprobs", 0) and
                  [t["logprob"] for t in e["top_logprobs"]] == [e["logprob"] - k for k in range(len(e["top_logprobs"]))] and
                  all(set(t) == {"token", "logprob", "bytes"} for t in e["top_logprobs"]) for e in entries), entries)
            check("C39/%s: members" % name, set(whole["logprobs"]) == {"content", "refusal"} and all(set(e) == {"token", "logprob", "bytes", "top_logprobs"} for e in entries))
            ev = chunks(chat(s, script, stream=True, **more))
            choices = [e["choices"][0] for e in ev[:-1]]
            check("C39/%s: streamed, the same" % name, entries_of(choices) == entries, choices)
            check("C39/%s: streamed, no empty object" % name, all(c["logprobs"] is None or c["logprobs"]["content"] for c in choices) and
                  all(valid(SCHEMA, e) is None for e in ev[:-1]), choices)
            check("C39/%s: streamed, not beside reasoning" % name, all(c["logprobs"] is None for c in choices if c["delta"].get("reasoning_content")), choices)
        a = chat(s, "[[say=</assistant>]]", logprobs=True).json()["choices"][0]
        check("C39/nothing said: null", a["logprobs"] is None, a)
        a = chunks(chat(s, "[[say=A|B]]", stream=True))
        check("C39/null unasked", all(e["choices"][0]["logprobs"] is None for e in a[:-1]))
        d = ask(s.port, "GET", "/v1/models").json()["data"][0]["supported_parameters"]
        check("models/supported parameters", {"repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "min_tokens", "logprobs", "top_logprobs"} <= set(d), d)


# -------------------------------------------------------------------------------------------------------- tools


TOOLS = cases("fixtures/tools.json")["tools"]


def pieces(steps):
    """Steps of a stream case as pieces of a script."""
    def byte(b):
        return chr(b) if chr(b).isalnum() and b < 128 else "%%%02x" % b
    return "|".join("".join("~" if t == "</think>" else "".join(map(byte, t.encode())) for t in step) for step in steps)


def played(steps, thinks=False):
    return "[[think=%s times=0]]" % pieces(steps) if thinks else "[[say=%s]]" % pieces(steps)


def merge(events, keep):
    """A client's accumulator: texts and arguments are appended, of other members `keep` says whether they overwrite."""
    m, calls, reason = {"content": "", "reasoning_content": ""}, {}, None
    for e in events:
        for c in e["choices"]:
            reason = c["finish_reason"] or reason
            for k in ("content", "reasoning_content"):
                m[k] += c["delta"].get(k) or ""
            for d in c["delta"].get("tool_calls", []):
                call = calls.setdefault(d["index"], {"arguments": ""})
                flat = {"id": d.get("id"), "type": d.get("type"), "name": d["function"].get("name")}
                present = {"id": "id" in d, "type": "type" in d, "name": "name" in d["function"]}
                for k, v in flat.items():
                    if keep(present[k], v):
                        call[k] = v
                call["arguments"] += d["function"]["arguments"]
    return m, [calls[i] for i in sorted(calls)], reason


ACCUMULATORS = (("present", lambda there, v: there), ("not null", lambda there, v: v is not None), ("not empty", lambda there, v: bool(v)))


def as_expected(m, calls, reason, want):
    return (m.get("reasoning_content") or "") == want["reasoning"] and (m["content"] or "") == want["content"] and reason == want["finish_reason"] and \
        [(c["name"], json.loads(c["arguments"])) for c in calls] == [(c["name"], json.loads(c["arguments"])) for c in want["tool_calls"]]


def flat_calls(message):
    return [{"id": c["id"], "type": c["type"], **c["function"]} for c in message.get("tool_calls", [])]


@group
def tools():
    ids = []
    with serving("tools", "--ctx=32768") as s:
        for name in ("C06-untagged-json", "C07-no-argument-call", "C08-argument-types", "C09-call-in-open-thinking", "C10-four-combinations", "C13-call-deltas"):
            for item in cases("streams/%s.json" % name)["items"]:
                label = "%s/%s" % (name[:3], item["name"])
                thinks = item["prompt_tail"] == "<think>"
                more = {"chat_template_kwargs": {"enable_thinking": thinks}}
                if item["tools"]:
                    more["tools"] = TOOLS if item["tools"] == "TOOLS" else item["tools"]
                wants = item["expect"].get("one_of", [item["expect"]])
                script = played(item["steps"], thinks)
                c = chat(s, script, **more).json()["choices"][0]
                got = flat_calls(c["message"])
                check(label + ": whole", any(as_expected(c["message"], got, c["finish_reason"], w) for w in wants), c)
                check(label + ": members of whole calls", all(set(g) == {"id", "type", "name", "arguments"} and g["type"] == "function" for g in got) and
                      ("tool_calls" in c["message"]) == bool(got) and (c["message"]["content"] is not None or bool(got)), c)
                ev = chunks(chat(s, script, stream=True, **more))
                why = [valid(SCHEMA, e) for e in ev[:-1]]
                check(label + ": events", not any(why) and all("content" in c["delta"] for e in ev[:-1] for c in e["choices"]), why)
                for how, keep in ACCUMULATORS:
                    m, calls, reason = merge(ev[:-1], keep)
                    check("%s: streamed, %s" % (label, how), any(as_expected(m, calls, reason, w) for w in wants), (m, calls, reason))
                ids += [c["id"] for c in got + calls]
                if item["name"].endswith(("thinking-on", "thinking-off")):  # each word leaves in a step of its own
                    said = [c["delta"]["content"] for e in ev[:-1] for c in e["choices"] if c["delta"]["content"]]
                    check(label + ": a chunk a word", said == ["w%02d " % i for i in range(1, 61)], said)
        check("tools/ids are unique", len(set(ids)) == len(ids) > 50 and all(re.fullmatch("call_[A-Za-z0-9]{24}", i) for i in ids), ids[:3])

        call = "<tool_call>find_item<arg_key>item_id</arg_key><arg_value>a \"b\" c</arg_value><arg_key>limit</arg_key><arg_value>2</arg_value></tool_call>"
        two = [["A."], [call, "<tool_call>list_boxes</tool_call>"], ["B"]]
        c = chat(s, played(two), tools=TOOLS, parallel_tool_calls=False).json()
        check("parallel_tool_calls false/whole", [g["name"] for g in flat_calls(c["choices"][0]["message"])] == ["find_item"] and c["choices"][0]["message"]["content"] == "A."
              and c["choices"][0]["finish_reason"] == "tool_calls" and c["choices"][0]["stop_reason"] is None, c)
        m, calls, reason = merge(chunks(chat(s, played(two), tools=TOOLS, parallel_tool_calls=False, stream=True))[:-1], ACCUMULATORS[0][1])
        check("parallel_tool_calls false/stream", [g["name"] for g in calls] == ["find_item"] and m["content"] == "A." and reason == "tool_calls", (m, calls, reason))
        for more in ({}, {"parallel_tool_calls": True}, {"parallel_tool_calls": None}, {"tool_choice": "auto"}, {"tool_choice": None}):
            c = chat(s, played(two), tools=TOOLS, **more).json()["choices"][0]
            check("two calls/" + json.dumps(more), len(flat_calls(c["message"])) == 2 and c["message"]["content"] == "A.B", c)

        at = len(s.log)
        c = chat(s, played([[call]]), tools=TOOLS, tool_choice="none", logit_bias={"7": 1}).json()["choices"][0]
        bias = [m.group(1) for _, l in s.log[at:] for m in [re.search(r"bias (\d+ \S+)$", l)] if m]
        check("tool_choice none/the tag is never chosen", bias == ["7 1", "25 -inf"], bias)
        check("tool_choice none/nothing is a call", c["message"]["content"] == call and "tool_calls" not in c["message"] and c["finish_reason"] == "stop", c)
        at = len(s.log)
        chat(s, "[[say=A]]", tools=[], tool_choice="none")
        check("tool_choice none/without tools", s.wait_line(s.log, r"bias none", start=at) is not None)
        c = chat(s, played([[call]])).json()["choices"][0]
        check("no tools: no calls", c["message"]["content"] == call and c["finish_reason"] == "stop", c)
        prompts = [chat(s, "[[say=A]]", tools=TOOLS, tool_choice=t).json()["usage"]["prompt_tokens"] for t in ("auto", "none")]
        check("tool_choice none/the same prompt", prompts[0] == prompts[1] > 200, prompts)
        # cut at every number of tokens, and left open by the model
        whole = chat(s, played([[call]]), tools=TOOLS).json()["usage"]["completion_tokens"]
        for n in range(1, whole + 1):
            m, calls, reason = merge(chunks(chat(s, played([[call]]), tools=TOOLS, max_tokens=n, stream=True))[:-1], ACCUMULATORS[0][1])
            check("cut after %d tokens/stream" % n, reason == ("length" if n < whole else "tool_calls") and m["content"] == "" and len(calls) <= 1
                  and all(isinstance(json.loads(g["arguments"]), dict) for g in calls), (calls, reason))
            c = chat(s, played([[call]]), tools=TOOLS, max_tokens=n).json()["choices"][0]
            closed = n >= whole - 1  # the last one is the end token
            check("cut after %d tokens/whole" % n, c["finish_reason"] == reason and len(flat_calls(c["message"])) == closed and not c["message"]["content"], c)
        for text in (call[:60], call[:100], call[:-12], "<tool_call>find"):
            m, calls, reason = merge(chunks(chat(s, played([["x", text]]), tools=TOOLS, stream=True))[:-1], ACCUMULATORS[0][1])
            check("left open %d/stream" % len(text), reason == "stop" and all(isinstance(json.loads(g["arguments"]), dict) for g in calls)
                  and m["content"] == ("x" if calls else "x" + text), (m, calls, reason))
            c = chat(s, played([["x", text]]), tools=TOOLS).json()["choices"][0]
            check("left open %d/whole" % len(text), c["message"]["content"] == "x" + text and "tool_calls" not in c["message"] and c["finish_reason"] == "stop", c)
        c = chat(s, played([[call], ["ab STOP c"]]), tools=TOOLS, stop=["STOP"], logprobs=True).json()["choices"][0]
        check("a stop string behind a call", c["message"]["content"] == "ab " and c["finish_reason"] == "tool_calls" and c["stop_reason"] == "STOP", c)
        c = chat(s, played([[call], ["a"]]), tools=TOOLS, logprobs=True).json()["choices"][0]
        check("logprobs are of the content", [e["token"] for e in c["logprobs"]["content"]] == ["a"], c)
        c = chat(s, played([["We", call]], True), tools=TOOLS, reasoning_format="none", chat_template_kwargs={"enable_thinking": True}).json()["choices"][0]
        check("calls beside raw reasoning", c["message"]["content"] == "We" and len(flat_calls(c["message"])) == 1, c)
        a = chat(s, "[[say=A%3ctool%5fcall%3ef%3carg%5fkey%3ea|b fail=3 step=5]]".replace("|", "%3c/arg%5fkey%3e%3carg%5fvalue%3ex|"), tools=[
            {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}], stream=True)
        ev = [json.loads(e) for e in a.events() if e != "[DONE]"]
        check("a fault inside a call is told", "error" in ev[-1] and any(c["delta"].get("tool_calls") for e in ev[:-1] for c in e["choices"]), ev)

        a = chat(s, played([["<tool_call>save_note<arg_key>text</arg_key><arg_value>", "\"\\\n<" * 500, "</arg_value></tool_call>"]]), tools=TOOLS, timeout=60)
        check("a long text", json.loads(flat_calls(a.json()["choices"][0]["message"])[0]["arguments"]) == {"text": "\"\\\n<" * 500}, a.body[:300])
        wrong = [("tools[0]", [1]), ("tools[0].type", [{"type": "web_search"}]), ("tools[0].type", [{"type": 1, "function": {"name": "f"}}]), ("tools[0].function", [{"type": "function"}]),
                 ("tools[0].function", [{}]), ("tools[1].function.name", [TOOLS[0], {"type": "function", "function": {}}]), ("tools[0].function.name", [{"type": "function", "function": {"name": ""}}]),
                 ("tools[0].function.name", [{"type": "function", "function": {"name": "n" * 257}}]), ("tools[0].function.parameters", [{"type": "function", "function": {"name": "f", "parameters": "x"}}])]
        for param, value in wrong:
            for more in ({}, {"tool_choice": "none"}):
                a = chat(s, tools=value, **more)
                check("tools/%s %s refused" % (param, json.dumps(value)[:40]), a.status == 400 and a.error()["param"] == param and a.error()["message"].startswith(param + ": "), a.body)
        odd = [{"type": "function", "function": {"name": "f", "parameters": p}} for p in ({}, None, {"properties": 3}, {"properties": {"a": 1, "b": {"type": ["string"]}, "c": {"type": 5}}})]
        for tool in odd + [{"function": {"name": "f"}}]:
            a = chat(s, played([["<tool_call>f<arg_key>b</arg_key><arg_value>1</arg_value></tool_call>"]]), tools=[tool])
            check("tools/%s" % json.dumps(tool), a.status == 200 and flat_calls(a.json()["choices"][0]["message"])[0]["arguments"] == '{"b": 1}', a.body)
        for item in cases("requests/C02-history-arguments.json")["items"]:
            want = item["expect"].get("one_of", [item["expect"]])
            a = ask(s.port, "POST", CHAT, {**item["body"], "tools": TOOLS})
            names = a.status != 400 or a.error()["param"].startswith("messages[")
            check("C02/" + item["name"], a.status in [w["status"] for w in want] and names, a.body)
        d = ask(s.port, "GET", "/v1/models").json()["data"][0]["supported_parameters"]
        check("models/tools", {"tools", "tool_choice", "parallel_tool_calls"} <= set(d), d)


# ---------------------------------------------------------------------------------------------------- public cases


@group
def usage_event():
    own = {"true-stop": dict(text="[[say=one_two|_three stop]]", stop="_three".replace("_", " ")), "true-length": dict(text="[[say=a|b|c|d]]", max_tokens=2),
           "true-no-token": dict(text="[[say=</assistant>]]")}
    with serving("C12") as s:
        for item in cases("requests/C12-usage-event.json")["items"]:
            name, body, expect = "C12/" + item["name"], dict(item["body"]), item["expect"]
            if item["name"] == "true-call":
                played_case = next(i for i in cases("streams/C13-call-deltas.json")["items"] if i["name"] == "reasoning-sentence-two-calls")
                body.update(messages=say(played(played_case["steps"], True))["messages"], tools=TOOLS, chat_template_kwargs={"enable_thinking": True})
            if item["name"] in own:
                more = dict(own[item["name"]])
                body["messages"] = [{"role": "user", "content": more.pop("text")}]
                body.update(more)
            a = ask(s.port, "POST", item["path"], body)
            if "one_of" in expect:
                check(name, a.status == 200 and a.json()["usage"]["total_tokens"] > 0, a.body)
            elif "status" in expect:
                check(name, a.status == expect["status"], a.body)
            else:
                ev = chunks(a)
                good = a.status == 200 and matches(kinds(ev), expect["events"]) and ev.count("[DONE]") == 1
                if good and "usage" in expect["events"]:
                    u = ev[-2]["usage"]
                    good = u["prompt_tokens"] + u["completion_tokens"] == u["total_tokens"] and "reasoning_tokens" in u["completion_tokens_details"]
                    good = good and not any("usage" in e for e in ev[:-2])
                check(name, good, kinds(ev))


def fill(s, target):
    """A message whose rendered prompt has exactly so many tokens, by the count of the server itself."""
    def count(text):
        a = chat(s, text, max_tokens=1)
        return a.json()["usage"]["prompt_tokens"] if a.status == 200 else a.error()["n_prompt_tokens"]
    base, unit = count("a"), " a"
    slope = (count("a" + unit * 20) - base) / 20
    n = int((target - base) / slope)
    text = "a" + unit * n
    while count(text) > target:
        n -= 1
        text = "a" + unit * n
    while count(text) < target:
        text += "!" if text.endswith("a") else "7"
    return text if count(text) == target else None


@group
def too_long():
    with serving("C14", "--ctx=512") as s:
        texts = {n: fill(s, n) for n in (511, 512, 513, 5000)}
        check("C14/prompts of the wanted lengths", all(texts.values()))
        runs = len([1 for _, l in s.log if " run " in l])
        for g in cases("requests/C14-too-long.json")["grid"]:
            n, stream, cap, expect = g["prompt_tokens"], g["stream"], g["max_tokens"], g["expect"]
            name = "C14/%d %s %s" % (n, "stream" if stream else "whole", cap)
            room = max(512 - n, 1)
            more = {} if cap == "absent" else {"max_tokens": {"room": room, "room+1": room + 1}.get(cap, cap)}
            a = chat(s, texts[n], stream=stream, **more)
            if "one_of" in expect:
                expect = {"status": 200}  # our rule: a limit that is too large is cut to the room
            good = a.status == expect["status"]
            if good and a.status == 400:
                e = a.error()
                good = (e["type"], e["code"]) == ("invalid_request_error", expect["code"]) and all(w in e["message"] for w in expect["message_has"])
                good = good and (e["n_prompt_tokens"], e["n_ctx"]) == (n, 512) and a.headers["content-type"] == "application/json"
            elif good and not stream:
                good = a.json()["usage"]["completion_tokens"] == 1 and a.json()["choices"][0]["finish_reason"] == "length"
            check(name, good, a.body[:300])
        ran = len([1 for _, l in s.log if " run " in l]) - runs
        check("C14/nothing is computed for refused prompts", ran == 10, ran)
        a = ask(s.port, "POST", CHAT, {"messages": [{"role": "user", "content": "a b c"}] * 10 + [{"role": "user", "content": "a " * 2000}]})
        check("C14/one huge message", a.status == 400 and a.error()["n_prompt_tokens"] > 2000, a.body)
        check("C14/followed by one that fits", alive(s))


@group
def bodies():
    with serving("C16") as s:
        for item in cases("bytes/C16-json-bodies.json")["items"]:
            a = ask(s.port, "POST", CHAT, expand(item["parts"]))
            allowed = [int(e.split()[0]) for e in item["expect"]]
            good = a.status in allowed
            if good and a.status == 400:
                a.body.decode("ascii" if item["kind"] == "case" and "raw" in item["name"] else "utf-8")
                good = "message" in a.error()
            check("C16/" + item["name"], good and alive(s), "%d %r" % (a.status, a.body[:200]))


@group
def depth():
    with serving("depth") as s:
        for levels, code in ((127, 200), (128, 400), (1000, 400)):  # the body itself is one level more
            body = json.dumps(say())[:-1].encode() + b', "later": ' + b"[" * levels + b"]" * levels + b"}"
            check("nesting of %d levels" % (levels + 1), ask(s.port, "POST", CHAT, body).status == code)
        check("brackets in strings do not nest", chat(s, "[" * 600 + '\\"{').status == 200)


@group
def silence():
    with serving("C17", "--ping-first-ms=200", "--ping-ms=300") as s:
        a = chat(s, "[[say=A|B prefill=1500 step=5]]", stream=True)
        blanks = [f for f in a.frames if f == b"\n\n"]
        check("C17/long prefill: blank lines at the interval", 5 <= len(blanks) <= 8, len(blanks))
        check("C17/long prefill: the answer is whole", text_of(chunks(a)) == "AB" and kinds(chunks(a))[-2:] == ["finish", "[DONE]"])
        check("C17/no blank line inside an event", all(f == b"\n\n" or f.startswith(b"data: ") for f in a.frames))
        a = chat(s, "[[say=A|B prefill=700 fail=prefill]]", stream=True)
        ev = chunks(a)
        check("C17/failure after keep-alives", a.status == 200 and kinds(ev) == ["error", "[DONE]"] and a.frames.count(b"\n\n") >= 2, a.body)
        check("C17/error event", ev[0]["error"]["code"] == 500 and ev[0]["error"]["type"] == "server_error" and ev[0]["error"]["param"] is None, ev)
        a = chat(s, "[[say=A prefill=400 fail=prefill]]")
        check("C17/failure of a whole answer", a.status == 500 and a.error()["type"] == "server_error", a.body)
        a = chat(s, "[[say=A|B|C fail=3 step=5]]", stream=True)
        check("C17/failure in mid-answer", kinds(chunks(a)) == ["delta", "delta", "error", "[DONE]"], kinds(chunks(a)))
        a = chat(s, "[[say=A prefill=700]]")
        check("C17/not streamed: one JSON body", a.status == 200 and a.body.startswith(b"{") and "content-length" in a.headers)
        a = chat(s, "[[say=A|B step=1000]]", stream=True)
        check("C17/pause in mid-answer", 2 <= a.frames.count(b"\n\n") <= 8, a.frames)
        a = chat(s, "[[say=A|B step=200 times=4]]", stream=True)
        check("C17/keep-alive and token at about the same time", all(f == b"\n\n" or f.startswith(b"data: ") for f in a.frames) and text_of(chunks(a)) == "AB" * 4)
        a = chat(s, "[[say=A prefill=700]]", stream=True, sse_ping_interval=-1)
        check("C17/switched off by the request", b"\n\n" not in a.frames)
        a = chat(s, "[[say=A prefill=700]]", stream=True, sse_ping_interval=0.1)
        check("C17/interval of the request", a.frames.count(b"\n\n") >= 4, a.frames)
    with serving("C17 off", "--ping-first-ms=-1", "--ping-ms=-1") as s:
        c = Client(s.port)
        at = time.monotonic()
        c.request("POST", CHAT, say("[[say=A prefill=800]]", stream=True))
        c.head()
        check("C17/headers leave before the prefill", time.monotonic() - at < 0.4)
        first = c.chunk()
        check("C17/switched off by flag: nothing before the first token", first.startswith(b"data: ") and time.monotonic() - at > 0.7)
        c.close()


@group
def stream_headers():
    with serving("C18") as s:
        for item in cases("requests/C18-stream-headers.json")["items"]:
            body = item["raw_body"].encode() if "raw_body" in item else item.get("body")
            a = ask(s.port, item["method"], item["path"], body, item.get("headers"))
            x = item["expect"]
            good = all(a.headers.get(k.lower()) == v for k, v in x.get("headers", {}).items())
            good = good and all(k.lower() not in a.headers for k in x.get("absent", [])) and all(k.lower() in a.headers for k in x.get("present", []))
            check("C18/" + item["name"], good and a.status == x.get("status", 200) and (x.get("body") != "none" or not a.body), (a.status, a.headers))
        for item in cases("bytes/C18-http10.json")["items"]:
            c = Client(s.port)
            c.send(expand(item["parts"]))
            a = c.answer()
            name, stream = "C18/1.0 " + item["name"], item["name"].startswith("stream")
            if stream:
                good = "transfer-encoding" not in a.headers and "content-length" not in a.headers and a.headers["connection"] == "close" and a.events()[-1] == "[DONE]"
            else:
                good = a.status == 200 and a.json() and "content-length" in a.headers
                if a.headers.get("connection") == "keep-alive":
                    c.request("GET", "/health", version="HTTP/1.0")
                    good = good and c.answer().status == 200
                else:
                    good = good and c.closed(2)
            check(name, good, a.headers)
            c.close()


@group
def browsers():
    with serving("C19", "--key=right", "--cors=http://localhost:3000") as s:
        for item in cases("requests/C19-cors.json")["items"]:
            body = item["raw_body"].encode() if "raw_body" in item else item.get("body")
            a = ask(s.port, item["method"], item["path"], body, item["headers"])
            x, sent = item["expect"], item["headers"]
            allow = [v for k, v in a.raw_headers if k == "access-control-allow-origin"]
            good = a.status == x.get("status", a.status)
            want = x.get("Access-Control-Allow-Origin", "")
            if want.startswith("http"):
                good = good and allow == [want] and "origin" in a.headers["vary"].lower()
            elif want.startswith("absent") or "else absent" in want:
                good = good and not allow
            elif want == "exactly once":
                good = good and len(allow) == 1
            if "Access-Control-Allow-Headers" in x:
                asked = {n.strip().lower() for n in sent["Access-Control-Request-Headers"].split(",")}
                good = good and asked <= {n.strip().lower() for n in a.headers["access-control-allow-headers"].split(",")}
            if "Access-Control-Allow-Methods" in x:
                good = good and x["Access-Control-Allow-Methods"].split()[0] in a.headers["access-control-allow-methods"]
            check("C19/" + item["name"], good, (a.status, a.headers))
        for name, headers, code in (("no key", {}, 401), ("wrong", {"Authorization": "Bearer wrong"}, 401), ("start of the key", {"Authorization": "Bearer righ"}, 401),
                                    ("empty", {"Authorization": "Bearer "}, 401), ("right", {"Authorization": "Bearer right"}, 200),
                                    ("lower case scheme", {"Authorization": "bearer right"}, 200), ("x-api-key", {"x-api-key": "right"}, 200), ("x-api-key wrong", {"x-api-key": "no"}, 401)):
            a = ask(s.port, "GET", "/v1/models", headers=headers)
            check("key/" + name, a.status == code and (code != 401 or (a.headers["www-authenticate"] == "Bearer" and a.error()["type"] == "authentication_error")), a.body)
        check("key/health needs none", ask(s.port, "GET", "/health").status == 200)
        check("key/unknown paths are guarded", ask(s.port, "GET", "/nothing").status == 401)
    with serving("hosts", "--host-names=box.lan, other") as s:
        for host, code in (("127.0.0.1:8000", 200), ("localhost", 200), ("LOCALHOST:1", 200), ("localhost.:9", 200), ("[::1]:80", 200), ("192.168.1.5", 200), ("box.lan:8000", 200),
                           ("other", 200), ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example:8000", 403), ("", 403), ("[::1", 403), ("[evil]", 403)):
            a = ask(s.port, "GET", "/v1/models", headers={"Host": host})
            check("host/" + (host or "empty"), a.status == code and (code == 200 or a.error()["type"] == "permission_error"), a.status)
        for origin, code in (("http://localhost:3000", 200), ("https://elsewhere.example", 403), ("null", 403), ("app://notes", 200), ("http://127.0.0.1.evil.example", 403), ("http://box.lan", 200)):
            a = ask(s.port, "GET", "/v1/models", headers={"Origin": origin})
            check("origin/" + origin, a.status == code and "access-control-allow-origin" not in a.headers, a.status)


@group
def form():
    """What an answer must be: shape of the members, grammars that reach the engine (the script says whether it kept them), refusals with their place."""
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}
    schema = {"response_format": {"type": "json_schema", "json_schema": {"name": "point", "schema": point, "strict": True}}}
    objects = {"response_format": {"type": "json_object"}}
    named = {"tool_choice": {"type": "function", "function": {"name": "find_item"}}}
    find = "<tool_call>find_item<arg_key>item_id</arg_key><arg_value>a b</arg_value></tool_call>"
    boxes = "<tool_call>list_boxes</tool_call>"
    good, other, cut = '{"x": 1}', '{"z": 1}', '{"x": 1'
    with serving("form") as s:
        def kept(script, **more):
            """"kept", "not kept", None: any form; and the answer."""
            at = len(s.log)
            a = chat(s, script, **more)
            if a.status != 200:
                return a.body, a
            found = s.wait_line(s.log, r"done \d+ finished, \d+ tokens(?:, form (.*))?$", start=at, timeout=5)
            return found and found[0].group(1), a
        for more, text, want in ((schema, good, "kept"), (schema, other, "not kept"), (schema, cut, "not kept"), (objects, other, "kept"), (objects, "[1]", "not kept"),
                                 ({"response_format": {"type": "json_object", "schema": point}}, other, "not kept"), ({"response_format": {"type": "json_object", "schema": point}}, good, "kept"),
                                 ({"json_schema": point}, good, "kept"), ({"json_schema": point}, other, "not kept"), ({"guided_json": point}, good, "kept"), ({"guided_json": point}, other, "not kept"),
                                 ({"structured_outputs": {"json": point}}, good, "kept"), ({"structured_outputs": {"json": point}}, other, "not kept"),
                                 ({"structured_outputs": {"json_object": True}}, other, "kept"), ({"structured_outputs": {"json_object": False}}, other, None), ({"structured_outputs": {}}, other, None),
                                 ({"response_format": {"type": "text"}}, good, None), ({"response_format": None, "json_schema": None}, good, None), (schema, "[1]", "not kept")):
            got = kept(played([[text]]), **more)[0]
            check("form/%s %s" % (json.dumps(more)[:60], text), got == want, got)
        for choice, text, want in (({"tool_choice": "required"}, find, "kept"), ({"tool_choice": "required"}, boxes, "kept"), ({"tool_choice": "required"}, find + boxes, "kept"), ({"tool_choice": "required"}, "no", "not kept"),
                                   ({"tool_choice": "required"}, "<tool_call>nobody</tool_call>", "not kept"), ({"tool_choice": "required"}, "<tool_call>find_item<arg_key>zzz</arg_key><arg_value>1</arg_value></tool_call>", "not kept"),
                                   ({"tool_choice": "required", "parallel_tool_calls": False}, find + boxes, "kept"), (named, find, "kept"), (named, boxes, "not kept"), ({"tool_choice": "auto"}, "no", None), ({"tool_choice": "none"}, "no", None),
                                   ({"tool_choice": "required", **schema}, boxes, "kept"), ({"tool_choice": "required", **schema}, good, "not kept"),
                                   (schema, good, "kept"), (schema, boxes + find, "kept"), (schema, "no", "not kept"), (schema, good + boxes, "not kept"), ({"tool_choice": "none", **schema}, good, "kept"), ({"tool_choice": "none", **schema}, boxes, "not kept")):
            got = kept(played([[text]]), tools=TOOLS, **choice)[0]
            check("form/tools %s %s" % (json.dumps(choice)[:60], text[:40]), got == want, got)
        for more in ({"tool_choice": "required", "parallel_tool_calls": False}, named):  # one call ends the answer
            c = kept(played([[find, find]]), tools=TOOLS, **more)[1].json()["choices"][0]
            check("form/one call with %s" % json.dumps(more), len(c["message"]["tool_calls"]) == 1 and c["finish_reason"] == "tool_calls", c)
        for thinks in ("Hm.~" + good, "Hm." + good + "~" + good):  # "~" is </think>: the grammar begins behind it, wherever the reasoning is shown
            for where in ("reasoning_content", "none"):
                got = kept("[[think=%s times=0]]" % thinks.replace(" ", "_"), reasoning_format=where, chat_template_kwargs={"enable_thinking": True}, **schema)[0]
                check("form/behind the reasoning, %s, %s" % (where, thinks), got == "kept", got)
        got = kept("[[think=%s times=0]]" % good.replace(" ", "_"), chat_template_kwargs={"enable_thinking": True}, **schema)[0]
        check("form/reasoning alone is no answer", got == "not kept", got)

        inside = lambda **sub: {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"properties": {"a": sub}}}}}
        at_schema = "response_format.json_schema.schema"
        wrong = [("response_format", "json_object", "response_format", ()), ("response_format", {}, "response_format.type", ()), ("response_format", {"type": "xml"}, "response_format.type", ("json_schema",)),
                 ("response_format", {"type": 3}, "response_format.type", ()), ("response_format", {"type": "json_schema"}, at_schema, ("object",)), ("response_format", {"type": "json_schema", "json_schema": []}, "response_format.json_schema", ()),
                 ("response_format", {"type": "json_schema", "json_schema": {"name": "n"}}, at_schema, ()), ("response_format", {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}}, "response_format.json_schema.name", ()),
                 ("response_format", {"type": "json_schema", "json_schema": {"schema": "x"}}, at_schema, ()), ("response_format", {"type": "json_schema", "json_schema": {"schema": {}, "strict": "yes"}}, "response_format.json_schema.strict", ()),
                 ("response_format", {"type": "json_object", "schema": []}, "response_format.schema", ()), ("json_schema", "x", "json_schema", ()), ("guided_json", "{}", "guided_json", ()),
                 ("structured_outputs", {"regex": "a"}, "structured_outputs.regex", ()), ("structured_outputs", {"json": 1}, "structured_outputs.json", ()), ("structured_outputs", {"json_object": 1}, "structured_outputs.json_object", ()),
                 ("response_format", inside(**{"not": {}})["response_format"], at_schema, ("not", "/properties/a")), ("response_format", inside(patternProperties={"a": {}})["response_format"], at_schema, ("patternProperties", "/properties/a")),
                 ("response_format", inside(type="float")["response_format"], at_schema, ("type", "/properties/a")), ("response_format", inside(**{"$ref": "#/gone"})["response_format"], at_schema, ("/properties/a",)),
                 ("json_schema", {"type": "object", "if": {}}, "json_schema", ("if",)), ("tool_choice", "find_item", "tool_choice", ("required",)), ("tool_choice", {}, "tool_choice.type", ()),
                 ("tool_choice", {"type": "allowed_tools"}, "tool_choice.type", ()), ("tool_choice", {"type": "function"}, "tool_choice.function.name", ()), ("tool_choice", {"type": "function", "function": {"name": 3}}, "tool_choice.function.name", ()),
                 ("tool_choice", {"type": "function", "function": {"name": "nobody"}}, "tool_choice", ("nobody",)), ("tool_choice", {"type": "function", "function": {"name": ""}}, "tool_choice", ())]
        for name, value, param, words in wrong:
            a = chat(s, tools=TOOLS, **{name: value})
            said = a.error() if a.status == 400 else {"param": None, "message": ""}
            check("form refused/%s" % json.dumps({name: value})[:90], said["param"] == param and all(w in said["message"] for w in words), a.body)
        for more, param in (({"json_schema": point, **objects}, "json_schema"), ({"guided_json": point, "json_schema": point}, "guided_json"), ({"structured_outputs": {"json": point, "json_object": True}}, "structured_outputs.json_object")):
            a = chat(s, **more)
            check("form refused/two at once %s" % param, a.status == 400 and a.error()["param"] == param, a.body)
        for more in ({"tool_choice": "required"}, {"tool_choice": "required", "tools": []}, named):
            a = chat(s, **more)
            check("form refused/a call without tools %s" % json.dumps(more), a.status == 400 and a.error()["param"] == "tool_choice", a.body)
        odd = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}]
        for more in ({"tool_choice": "required"}, {"response_format": {"type": "json_object"}}):
            a = chat(s, tools=odd, **more)
            check("form refused/a tool's schema %s" % json.dumps(more), a.status == 400 and a.error()["param"] == "tools" and all(w in a.error()["message"] for w in ('"f"', "not", "/properties/a")), a.body)
        check("form/the same tool when nothing is forced", chat(s, tools=odd).status == 200)
        a = chat(s, tools=[{"type": "function", "function": {"name": "t%d" % i}} for i in range(20000)] * 2, tool_choice="required", timeout=60)
        check("form/very many tools", a.status in (200, 400), a.status)
        check("form/server is fine", alive(s))


@group
def models():
    with serving("C21", "--ctx=4096", "--alias=org/laguna-s") as s:
        for item in cases("requests/C21-models.json")["items"]:
            if "start" in item:
                continue
            path = item["path"].replace("{id}", "org/laguna-s")
            a = ask(s.port, item["method"], path, item.get("body"))
            x, good = item["expect"], a.json() is not None
            if "one_of" in x:
                good = good and a.status == 200  # our rule: any name, or none
            else:
                good = good and a.status == x["status"]
            for k, v in x.get("headers", {}).items():
                good = good and v in a.headers[k.lower()]
            if item["name"] == "list":
                d = a.json()["data"][0]
                sizes = [d["max_model_len"], d["context_length"], d["context_window"], d["max_completion_tokens"], d["meta"]["n_ctx"]]
                good = good and sizes == [4096] * 5 and d["id"] == d["root"] == "org/laguna-s" and d["object"] == "model" and a.json()["object"] == "list"
            if item["name"] in ("one model", "id with a slash"):
                good = good and a.json()["id"] == "org/laguna-s" and a.json()["max_model_len"] == 4096
            check("C21/" + item["name"], good, (a.status, a.body))
        check("C21/escaped slash", ask(s.port, "GET", "/v1/models/org%2Flaguna-s").status == 200)
        for path in ("/models", "/v1/models/", "/v1/models?client_version=1", "/models/org/laguna-s/", "/v1/models//"):
            check("path/" + path, ask(s.port, "GET", path).status == 200)
        for path in ("/chat/completions", "/v1/chat/completions/", "/v1/chat/completions?beta=true"):
            check("path/" + path, ask(s.port, "POST", path, say()).status == 200)
        for path in ("/", "/v2/models", "/v1", "/v1/v1/models", "/v1/chat", "/modelsx", "/%2e%2e/etc/passwd"):
            a = ask(s.port, "GET", path)
            check("unknown path/" + path, a.status == 404 and a.error()["type"] == "not_found_error", a.status)
        for method in ("PUT", "DELETE", "PATCH", "BREW", "TRACE"):
            a = ask(s.port, method, CHAT)
            check("wrong method/" + method, a.status == 405 and a.headers["allow"] == "POST" and "error" in a.json(), a.status)
        a = ask(s.port, "OPTIONS", CHAT)
        check("OPTIONS", a.status == 204 and a.headers["allow"] == "POST" and not a.body)
        check("OPTIONS *", ask(s.port, "OPTIONS", "*").status == 204)
        check("absolute target", ask(s.port, "GET", "http://localhost:9/v1/models").status == 200)
        check("request id taken over", ask(s.port, "GET", "/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1")
        made = {ask(s.port, "GET", "/nope", headers=h).headers["x-request-id"] for h in ({}, {"x-request-id": "x" * 200}, {"x-request-id": "a b"})}
        check("request id made", len(made) == 3 and all(m.startswith("req_") for m in made), made)


@group
def thinking():
    """The request's switch beats the server's, which beats the model's."""
    for default in (True, False):
        with serving("C05 %s" % default, "--kwargs=" + json.dumps({"enable_thinking": default})) as s:
            def ends(**more):
                at = len(s.log)
                a = chat(s, **more)
                found = s.wait_line(s.log, r"prompt ends in (\S+?),", start=at, timeout=5)
                return found[0].group(1) if found and a.status == 200 else a.status
            for item in cases("requests/C05-thinking-switch.json")["items"]:
                if item["template_default"] != default or item["name"] == "usage":
                    continue
                body = dict(item["body"])
                body.pop("messages")
                want = item["expect"].get("prompt_ends_with", 400)
                check("C05/" + item["name"], ends(**body) == want)
            for more, want in (({"reasoning_effort": "none"}, "</think>"), ({"reasoning_effort": 0}, "</think>"), ({"reasoning_effort": "low"}, "<think>"),
                               ({"reasoning": {"effort": "none"}}, "</think>"), ({"reasoning": {"effort": "high"}}, "<think>"), ({"reasoning": {"enabled": False}}, "</think>"),
                               ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, "</think>"),
                               ({"reasoning_effort": None, "chat_template_kwargs": {"enable_thinking": None}}, "<think>" if default else "</think>")):
                check("thinking/%s %s" % (default, json.dumps(more)), ends(**more) == want)
    with serving("C05 usage") as s:
        j = chat(s, "[[think=We|are say=A]]", reasoning_effort="high").json()
        check("C05/usage", j["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0, j["usage"])


# ------------------------------------------------------------------------------------------- clients that leave


PHASES = {"queued": None, "early prefill": ("prefill=3000 chunks=10", 0.3), "late prefill": ("prefill=1200 chunks=10", 1.0), "before the first token": ("prefill=900", 0.8),
          "mid-answer": ("step=50 times=200", 0.4)}


def leave(c, kind):
    {"FIN": c.close, "RST": c.reset, "half-close": c.half_close}[kind]()


@group
def gone():
    with serving("C15", "--half-close-ms=500") as s:
        for stream in (True, False):
            for phase, how in PHASES.items():
                for kind in ("FIN", "RST"):
                    name = "C15/%s %s %s" % (phase, kind, "stream" if stream else "whole")
                    blocker = None
                    at = len(s.log)
                    if how is None:
                        blocker = Client(s.port)
                        blocker.request("POST", CHAT, say("[[say=A prefill=2500]]"))
                        s.wait_line(s.log, r" run (\d+)", start=at)
                        how_script, wait = "say=B", 0.3
                    else:
                        how_script, wait = how
                    c = Client(s.port)
                    c.request("POST", CHAT, say("[[say=word_|and_ %s]]" % how_script, stream=stream))
                    if not blocker:
                        s.wait_line(s.log, r" run (\d+)", start=at)
                    if stream:  # bytes left unread would turn a FIN into a reset
                        c.head()
                        c.sock.settimeout(0.05)
                    end = time.monotonic() + wait
                    while time.monotonic() < end:
                        try:
                            c.more() if stream else time.sleep(0.05)
                        except socket.timeout:
                            pass
                    left = time.monotonic()
                    leave(c, kind)
                    if blocker:
                        gone_line = s.wait_line(s.log, r"chat: .*the client has gone", start=at, timeout=5)
                        idle = gone_line and gone_line[1] - left < 1.0
                        a = blocker.answer()
                        ran = len([1 for _, l in s.log[at:] if " run " in l])
                        check(name, idle and a.status == 200 and ran == 1, (gone_line, ran))
                        blocker.close()
                    else:
                        done = s.wait_line(s.log, r"done \d+ (cancelled|finished)", start=at, timeout=5)
                        check(name, done and done[1] - left < 1.0, done and done[1] - left)
                check("C15/an ordinary request after %s" % phase, alive(s))

        c = Client(s.port)
        c.request("POST", CHAT, say("[[say=ab|cd step=100 times=20]]", stream=True))
        c.half_close()
        a = c.answer()
        check("C15/half-closed reader gets its whole stream", text_of(chunks(a)) == "abcd" * 20 and chunks(a)[-1] == "[DONE]", len(a.frames))
        c.close()
        c = Client(s.port)
        c.request("POST", CHAT, say("[[say=ab prefill=200]]"))
        c.half_close()
        check("C15/half-closed reader gets a short whole answer", c.answer().json()["choices"][0]["message"]["content"] == "ab")
        c.close()
        at = len(s.log)
        c = Client(s.port)
        c.request("POST", CHAT, say("[[say=ab prefill=5000]]"))
        c.half_close()
        done = s.wait_line(s.log, r"done \d+ cancelled", start=at, timeout=5)
        why = s.wait_line(s.log, r"grace is over", start=at, timeout=1)
        check("C15/half-closed, long and not streamed: cancelled after the grace, with a log line", done and why and c.closed(2))
        c.close()

        at = len(s.log)
        for _ in range(5):
            c = Client(s.port)
            c.request("POST", CHAT, say("[[say=A prefill=3000]]"))
            time.sleep(0.2)
            c.close()
        a = chat(s, "[[say=A prefill=100]]")
        check("C15/five retries, the sixth is answered", a.status == 200)
        running, most = 0, 0
        for _, line in s.log[at:]:
            running += (" run " in line) - (" done " in line)
            most = max(most, running)
        check("C15/one prefill at a time", most == 1, most)

        for i in range(30):  # a close in the moment of the last token
            c = Client(s.port)
            c.request("POST", CHAT, say("[[say=A|B prefill=20 step=0]]", stream=i % 2 == 0))
            time.sleep(0.018 + i * 0.0003)
            leave(c, ("FIN", "RST")[i // 2 % 2])
        check("C15/closes together with the last token", alive(s))
        c = Client(s.port, 20)
        c.request("POST", CHAT, say("[[say=A prefill=2500]]"))
        check("C15/a silent open client is no alarm", c.answer().status == 200)
        c.close()


# -------------------------------------------------------------------------------------------- hostile and odd input


@group
def extra_bytes():
    """Bytes that come while a request is pending."""
    with serving("extra") as s:
        for stream in (False, True):
            kind = "stream" if stream else "whole"
            for name, junk in (("one byte", b"x"), ("line", b"garbage\r\n\r\n"), ("1 MB", b"z" * (1 << 20))):
                c = Client(s.port)
                c.request("POST", CHAT, say("[[say=A|B prefill=300]]", stream=stream))
                time.sleep(0.1)
                try:
                    c.send(junk)
                    a = c.answer()
                    good = a.status == 200 and b"A" in a.body
                except ConnectionError as e:
                    good, a = False, e
                check("extra bytes/%s %s" % (kind, name), good and alive(s), a)
                c.close()
            c = Client(s.port)
            both = request_bytes("POST", CHAT, say("[[say=A|B prefill=100]]", stream=stream)) + request_bytes("GET", "/v1/models")
            c.send(both + request_bytes("POST", CHAT, say("[[say=C]]")))
            answers = [c.answer() for _ in range(3)]
            check("pipelined/" + kind, [a.status for a in answers] == [200] * 3 and answers[1].json()["object"] == "list" and
                  answers[2].json()["choices"][0]["message"]["content"] == "C")
            c.close()
            at = len(s.log)
            c = Client(s.port)
            c.request("POST", CHAT, say("[[say=A|B prefill=5000]]", stream=stream))
            c.send(b"z" * 300000)
            time.sleep(0.3)
            c.reset()
            done = s.wait_line(s.log, r"done \d+ cancelled", start=at, timeout=3)
            check("extra bytes/%s, then gone" % kind, done and alive(s))


@group
def malformed():
    with serving("malformed") as s:
        h = b"Host: localhost\r\n"
        raw = {"no version": b"GET /health\r\n\r\n", "version 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "version word": b"GET / HTTX/1.1\r\n" + h + b"\r\n",
               "binary": bytes(range(256)) + b"\r\n\r\n", "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", "no host": b"GET /health HTTP/1.1\r\n\r\n",
               "two hosts": b"GET /health HTTP/1.1\r\n" + h + h + b"\r\n", "blank before colon": b"GET /health HTTP/1.1\r\nHost : a\r\n\r\n",
               "folded line": b"GET /health HTTP/1.1\r\n" + h + b"A: b\r\n c\r\n\r\n", "NUL in a header": b"GET /health HTTP/1.1\r\n" + h + b"A: b\0c\r\n\r\n",
               "bad escape": b"GET /%zz HTTP/1.1\r\n" + h + b"\r\n", "NUL in the path": b"GET /%00 HTTP/1.1\r\n" + h + b"\r\n", "relative path": b"GET health HTTP/1.1\r\n" + h + b"\r\n",
               "two lengths": b"POST /health HTTP/1.1\r\n" + h + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
               "length and chunked": b"POST /health HTTP/1.1\r\n" + h + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               "negative length": b"POST /health HTTP/1.1\r\n" + h + b"Content-Length: -1\r\n\r\n", "huge length": b"POST /health HTTP/1.1\r\n" + h + b"Content-Length: 99999999999999999999\r\n\r\n",
               "hex length": b"POST /health HTTP/1.1\r\n" + h + b"Content-Length: 0x5\r\n\r\nhello", "other coding": b"POST /health HTTP/1.1\r\n" + h + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
               "bad chunk size": b"POST /health HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "chunk size of 2^64": b"POST /health HTTP/1.1\r\n" + h +
               b"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", "chunk without end": b"POST /health HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
               "unknown expectation": b"POST /health HTTP/1.1\r\n" + h + b"Expect: magic\r\nContent-Length: 1\r\n\r\nx", "chunked in 1.0": b"POST /health HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
               "many headers": b"GET /health HTTP/1.1\r\n" + h + b"A: b\r\n" * 2000 + b"\r\n", "head of 70 kB": b"GET /health HTTP/1.1\r\n" + h + b"A: " + b"x" * 70000 + b"\r\n\r\n",
               "endless head": b"GET /health HTTP/1.1\r\nA: " + b"x" * 200000}
        for name, data in raw.items():
            c = Client(s.port)
            try:
                c.send(data)
                a = c.answer()
                good = 400 <= a.status <= 505 and a.status != 500 and "message" in a.error() and a.headers["connection"] == "close" and c.closed(3)
            except (EOFError, ConnectionError) as e:
                good, a = False, e
            check("malformed/" + name, good and ask(s.port, "GET", "/health").status == 200, getattr(a, "status", a))
            c.close()
        fine = {"bare line feeds": b"GET /health HTTP/1.1\nHost: localhost\n\n", "blank lines in front": b"\r\n\r\nGET /health HTTP/1.1\r\n" + h + b"\r\n",
                "no blank after the colon": b"GET /health HTTP/1.1\r\nHost:localhost\r\n\r\n", "lower case method is another method": b"get /health HTTP/1.1\r\n" + h + b"\r\n",
                "60 kB of headers": b"GET /health HTTP/1.1\r\n" + h + b"A: " + b"x" * 60000 + b"\r\n\r\n"}
        for name, data in fine.items():
            c = Client(s.port)
            for i in range(0, len(data), 7 if len(data) < 200 else 1400):
                c.send(data[i:i + (7 if len(data) < 200 else 1400)])
            a = c.answer()
            check("fine/" + name, a.status == (405 if "lower" in name else 200), a.status)
            c.close()
        rng = random.Random(7)
        for _ in range(150):
            c = Client(s.port)
            try:
                data = bytearray(request_bytes("POST", CHAT, say("[[say=A]]", stream=rng.random() < 0.5)))
                for _ in range(rng.randrange(1, 6)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                c.send(bytes(data[:rng.randrange(len(data))] if rng.random() < 0.3 else data))
                if rng.random() < 0.5:
                    c.sock.settimeout(0.05)
                    c.more()
            except OSError:
                pass
            c.reset() if rng.random() < 0.5 else c.close()
        check("random damage", alive(s))


@group
def body_limits():
    with serving("bodies", "--body-max=100000") as s:
        fits = json.dumps(say()).encode()
        fits += b" " * (100000 - len(fits))
        check("body/just fits", ask(s.port, "POST", CHAT, fits).status == 200)
        for name, size in (("one byte more", 100001), ("8 MB", 8 << 20)):
            a = ask(s.port, "POST", CHAT, b" " * size)
            check("body/" + name, a.status == 413 and a.error()["type"] == "invalid_request_error" and a.headers["connection"] == "close", a.status)
        c = Client(s.port)
        c.send(request_bytes("POST", CHAT, b"", {"Content-Length": "99999999999"}))
        check("body/refused before it comes", c.answer().status == 413)
        c.close()

        def chunked(body, size, extra=b"", trailer=b""):
            out = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            for i in range(0, len(body), size):
                part = body[i:i + size]
                out += b"%X%s\r\n" % (len(part), extra) + part + b"\r\n"
            return out + b"0\r\n" + trailer + b"\r\n"
        body = json.dumps(say("[[say=A]]")).encode()
        for name, data in (("chunks of 1", chunked(body, 1)), ("one chunk", chunked(body, 1 << 20)), ("extensions", chunked(body, 9, b";a=b")), ("trailers", chunked(body, 30, trailer=b"A: b\r\nC: d\r\n"))):
            for cut in (len(data), 1, 5):
                c = Client(s.port)
                for i in range(0, len(data), cut):
                    c.send(data[i:i + cut])
                a = c.answer()
                c.request("GET", "/health")
                check("chunked body/%s, sent by %d" % (name, cut), a.status == 200 and c.answer().status == 200, a.body)
                c.close()
        c = Client(s.port)
        c.send(chunked(b" " * 200000, 50000))
        check("chunked body/too large", c.answer().status == 413)
        c.close()
        c = Client(s.port)
        c.send(request_bytes("POST", CHAT, b"", {"Content-Length": str(len(body)), "Expect": "100-continue"}))
        first = c.head()
        c.send(body)
        check("expect 100-continue", first.status == 100 and c.answer().status == 200)
        c.close()
        c = Client(s.port)
        c.send(request_bytes("POST", CHAT, b"", {"Content-Length": "200000", "Expect": "100-continue"}))
        check("expect 100-continue, too large", c.head().status == 413)
        c.close()


@group
def timeouts():
    with serving("timeouts", "--head-ms=600", "--body-ms=500", "--idle-ms=700", "--write-ms=800", "--unsent-max=400000", "--ctx=50000000", "--ping-first-ms=-1", "--ping-ms=-1") as s:
        c = Client(s.port)
        at = time.monotonic()
        for byte in b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 100:
            c.send(bytes([byte]))
            if select.select([c.sock], [], [], 0.02)[0]:
                break
        check("a head that drips in is cut off", time.monotonic() - at < 2 and c.answer().status == 408)
        c.close()
        c = Client(s.port)
        c.send(request_bytes("POST", CHAT, b"", {"Content-Length": "100"}) + b"{")
        check("a body that stops coming", c.answer().status == 408 and c.closed(3))
        c.close()
        c = Client(s.port)
        at = time.monotonic()
        check("an idle connection is closed", c.closed(3) and time.monotonic() - at > 0.5)
        c.close()
        for stream in (True, False):
            a = chat(s, "[[say=A|B prefill=1500 step=1200]]", stream=stream)
            check("request timeouts do not cut a %s answer" % ("streamed" if stream else "whole"), a.status == 200 and b"B" in a.body)

        for name, script in (("fast writer", "say=%s times=100000" % "|".join(["lorem_ipsum_dolor_"] * 8)), ("slow writer", "say=%s times=100000 step=1" % ("lorem_ipsum_dolor_" * 12))):
            at = len(s.log)
            c = Client(s.port)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.request("POST", CHAT, say("[[%s end=none]]" % script, stream=True, ignore_eos=True))
            done = s.wait_line(s.log, r"done \d+ (cancelled|finished)", start=at, timeout=30)
            why = s.wait_line(s.log, "reads too slowly" if name == "fast writer" else "does not read|reads too slowly", start=at, timeout=2)
            check("a client that does not read/" + name, done and why and done[0].group(1) == "cancelled", (done, why))
            c.close()
        check("after slow readers", alive(s))


# ------------------------------------------------------------------------------------------ connections and queue


@group
def connections():
    with serving("connections", "--connections=40") as s:
        c = Client(s.port)
        for i in range(20):
            c.request("POST", CHAT, say("[[say=A%d]]" % i, stream=i % 2 == 0))
            a = c.answer()
            if a.status != 200 or b"A%d" % i not in a.body:
                break
        check("keep-alive/20 requests on one connection", i == 19 and a.status == 200)
        c.request("GET", "/health", headers={"Connection": "close"})
        a = c.answer()
        check("keep-alive/asked to close", a.headers.get("connection") == "close" and c.closed(2))
        c.close()
        c = Client(s.port)
        c.request("POST", CHAT, say(stream=True), headers={"Connection": "close"})
        check("keep-alive/stream, asked to close", chunks(c.answer())[-1] == "[DONE]" and c.closed(2))
        c.close()
        time.sleep(0.3)  # the closes above must have arrived
        many = [Client(s.port) for _ in range(40)]
        for c in many:
            c.request("GET", "/health")
        check("40 connections at once", all(c.answer().status == 200 for c in many))
        c = Client(s.port)
        a = c.answer()
        check("one more is told so", a.status == 503 and a.error()["type"] == "unavailable_error" and c.closed(3))
        c.close()
        for c in many:
            c.close()
        time.sleep(0.2)
        check("after they left", alive(s))
    with serving("many") as s:
        results = []

        def worker(n):
            for i in range(15):
                a = ask(s.port, "GET", "/v1/models") if (i + n) % 3 else chat(s, "[[say=w%d_%d]]" % (n, i), timeout=60)
                results.append(a.status)
        threads = [threading.Thread(target=worker, args=(n,)) for n in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        check("eight clients in parallel", len(results) == 120 and set(results) <= {200, 429}, set(results))
    with serving("queue", "--queue=2") as s:
        at = len(s.log)
        c = [Client(s.port, 30) for _ in range(4)]
        c[0].request("POST", CHAT, say("[[say=A prefill=1200]]"))
        s.wait_line(s.log, " run ", start=at)
        for i in (1, 2):
            c[i].request("POST", CHAT, say("[[say=A%d]]" % i, stream=i == 2))
            time.sleep(0.05)
        c[3].request("POST", CHAT, say(stream=True))
        a = c[3].answer()
        check("queue/full: 429", a.status == 429 and int(a.headers["retry-after"]) >= 1 and a.error()["type"] == "rate_limit_error", a.body)
        answers = [x.answer() for x in c[:3]]
        check("queue/those who wait are served", [x.status for x in answers] == [200] * 3 and b"A1" in answers[1].body and b"A2" in answers[2].body)
        check("queue/time in it is told", answers[1].json()["timings"]["queue_ms"] > 500, answers[1].json()["timings"]["queue_ms"])
        check("queue/empty again", alive(s))
        [x.close() for x in c]


# ------------------------------------------------------------------------------------------------ start and stop


@group
def start():
    s = Server(PROGRAM, "--load-ms=1500").wait_port()
    a = ask(s.port, "GET", "/health")
    j = a.json()
    check("loading/health", a.status == 503 and j["status"] == "loading" and 0 <= j["progress"] < 1 and j["error"]["code"] == 503 and "retry-after" in a.headers, j)
    for method, path, body in (("POST", CHAT, say()), ("POST", CHAT, say(stream=True)), ("GET", "/v1/models", None), ("GET", "/v1/models/x", None)):
        a = ask(s.port, method, path, body)
        check("loading/%s" % path, a.status == 503 and a.error()["type"] == "unavailable_error" and "retry-after" in a.headers, a.body)
    check("loading/unknown path is still 404", ask(s.port, "GET", "/nope").status == 404)
    time.sleep(0.7)
    check("loading/progress moves", ask(s.port, "GET", "/v1/health").json().get("percent", 0) > j["percent"])
    s.wait_ready()
    check("ready/health", ask(s.port, "GET", "/health").json() == {"status": "ok"} and alive(s))
    check("ready/exit code", s.stop() == 0)
    s = Server(PROGRAM, "--load-ms=200", "--load-fails=1").wait_port()
    check("loading fails: exit code and the reason", s.join() == 1 and any("loading fails" in l for _, l in s.log))
    check("bad template values: exit code 2", Server(PROGRAM, "--kwargs=[1]").join() == 2)
    check("unusable host: exit code 5", Server(PROGRAM, "--host=999.1.1.1").join() == 5)
    with serving("localhost", "--host=localhost") as s:
        families = {i[0] for i in socket.getaddrinfo("localhost", s.port, type=socket.SOCK_STREAM)}
        reached = 0
        for family in families:
            with socket.socket(family) as c:
                reached += c.connect_ex(("localhost", s.port)) == 0
        check("every address of a host name listens", reached == len(families), (reached, families))
    with serving("ports") as first:
        taken = Server(PROGRAM, "--port=%d" % first.port)
        check("port taken: exit code 5 and the port", taken.join() == 5 and any(str(first.port) in l for _, l in taken.log))
        moved = Server(PROGRAM, "--port=%d" % first.port, "--port-search=1").wait_ready()
        check("port taken: the next one", moved.port != first.port and any("moved" in l for _, l in moved.out) and alive(moved))
        check("port taken: ends well", moved.stop() == 0)


@group
def stop():
    for name, script, grace, check_answer in (("within the grace", "say=A|B prefill=600", 5000, lambda ev: ev[-1] == "[DONE]" and text_of(ev) == "AB"),
                                              ("after the grace", "say=A step=50 times=500", 300, lambda ev: kinds(ev)[-2:] == ["error", "[DONE]"] and ev[-2]["error"]["code"] == 503)):
        s = Server(PROGRAM, "--grace-ms=%d" % grace).wait_ready()
        idle, c = Client(s.port), Client(s.port)
        idle.request("GET", "/health")
        idle.answer()
        at = len(s.log)
        c.request("POST", CHAT, say("[[%s]]" % script, stream=True))
        s.wait_line(s.log, " run ", start=at)
        s.process.terminate()
        ev = chunks(c.answer())
        check("stop/%s: the stream" % name, check_answer(ev), ev[-2:])
        check("stop/%s: idle connections are closed" % name, idle.closed(1))
        at = time.monotonic()
        check("stop/%s: exit code" % name, s.join() == 0 and time.monotonic() - at < 3)
    s = Server(PROGRAM, "--grace-ms=60000").wait_ready()
    c = Client(s.port)
    c.request("POST", CHAT, say("[[say=A prefill=60000]]", stream=True))
    c.head()
    s.process.terminate()
    time.sleep(0.3)
    refused = False
    try:
        Client(s.port, 1).close()
    except OSError:
        refused = True
    check("stop/no new connections", refused)
    at = time.monotonic()
    s.process.terminate()
    check("stop/a second signal ends it at once", s.join() == 0 and time.monotonic() - at < 3)
    c.close()


def main():
    global PROGRAM
    words = sys.argv[1:]
    if words and os.path.sep in words[0]:
        PROGRAM = os.path.abspath(words.pop(0))
    for f in groups:
        if words and not any(w in f.__name__ for w in words):
            continue
        try:
            f()
        except Exception:
            counts["FAIL"] += 1
            print("FAIL %s: %s" % (f.__name__, traceback.format_exc()), flush=True)
    print("%d passed, %d failed, %d skipped" % (counts["ok"], counts["FAIL"], counts["skip"]))
    sys.exit(1 if counts["FAIL"] else 0)


main()
