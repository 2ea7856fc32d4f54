"""Client side of the server tests: a process, raw sockets, HTTP and event streams by hand. Python standard library only."""
import json, os, re, socket, struct, subprocess, sys, threading, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOST = "127.0.0.1"


class Server:
    """One server process. Log lines are kept with the time they came."""

    def __init__(self, program, *flags):
        self.log = []
        self.out = []
        self.born = time.monotonic()
        self.process = subprocess.Popen([program, *(["--port=0"] if not any(f.startswith("--port=") for f in flags) else []), *flags],
                                        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self._read, args=a, daemon=True)
                        for a in ((self.process.stdout, self.out), (self.process.stderr, self.log))]
        for r in self.readers:
            r.start()

    def _read(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append((time.monotonic(), line.rstrip("\n")))
                self.changed.notify_all()

    def wait_line(self, lines, pattern, timeout=20.0, start=0):
        """The match and its time, of the first line from index start on; None when it does not come."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                for when, line in lines[start:]:
                    m = re.search(pattern, line)
                    if m:
                        return m, when
                left = end - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and left < timeout - 1):
                    return None
                self.changed.wait(min(left, 0.2))

    def wait_port(self):
        found = self.wait_line(self.out, r"^listening (\d+)")
        if not found:
            raise AssertionError("the server does not listen: " + " / ".join(l for _, l in self.log[-20:]))
        self.port = int(found[0].group(1))
        return self

    def wait_ready(self):
        self.wait_port()
        if not self.wait_line(self.out, r"^ready"):
            raise AssertionError("the server does not get ready")
        return self

    def stop(self, timeout=30):
        """Exit code after SIGTERM; what a sanitizer had to say is an error."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.join(timeout)

    def join(self, timeout=30):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError("the server does not end")
        for r in self.readers:
            r.join(5)
        bad = [l for _, l in self.log if re.search(r"Sanitizer|runtime error|CHECK|check failed", l)]
        if bad or code < 0:
            raise AssertionError("the server died (%d): %s" % (code, " / ".join(l for _, l in self.log[-30:])))
        return code


class Answer:
    def __init__(self):
        self.status, self.version, self.headers, self.raw_headers, self.body, self.frames = 0, "", {}, [], b"", []

    def json(self):
        return json.loads(self.body)

    def error(self):
        return self.json()["error"]

    def events(self):
        return sse_events(self.body)


def sse_events(body):
    """Data of each event, by the rules of the event-stream format; the framing is checked on the way."""
    found = []
    for block in body.decode().split("\n\n"):
        lines = [l for l in block.split("\n") if l]
        for line in lines:
            assert line.startswith("data: ") or line.startswith(":"), "odd line in the stream: %r" % line
        data = [l[6:] for l in lines if l.startswith("data: ")]
        assert len(data) <= 1, "two data lines in one event"
        found += data
    return found


class Client:
    """One connection."""

    def __init__(self, port, timeout=15.0):
        self.sock = socket.create_connection((HOST, port), timeout)
        self.sock.settimeout(timeout)
        self.pending = b""

    def send(self, data):
        self.sock.sendall(data)

    def request(self, method, path, body=None, headers=None, version="HTTP/1.1"):
        self.send(request_bytes(method, path, body, headers, version))

    def more(self):
        data = self.sock.recv(65536)
        self.pending += data
        return bool(data)

    def until(self, mark):
        while mark not in self.pending:
            if not self.more():
                raise EOFError("closed before %r; had %r" % (mark, self.pending[:200]))
        i = self.pending.index(mark) + len(mark)
        data, self.pending = self.pending[:i], self.pending[i:]
        return data

    def exactly(self, n):
        while len(self.pending) < n:
            if not self.more():
                raise EOFError("closed inside a body")
        data, self.pending = self.pending[:n], self.pending[n:]
        return data

    def head(self):
        a = Answer()
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        a.version, status = lines[0].split(" ", 2)[:2]
        a.status = int(status)
        for line in lines[1:]:
            if line:
                k, v = line.split(":", 1)
                a.raw_headers.append((k.strip().lower(), v.strip()))
        a.headers = dict(a.raw_headers)
        return a

    def chunk(self):
        """Payload of the next chunk, b"" at the end of the body."""
        n = int(self.until(b"\r\n"), 16)
        data = self.exactly(n + 2)
        assert data[n:] == b"\r\n"
        return data[:n]

    def answer(self, method="GET"):
        a = self.head()
        while a.status == 100:
            a = self.head()
        if method == "HEAD" or a.status == 204:
            return a
        if a.headers.get("transfer-encoding") == "chunked":
            while True:
                frame = self.chunk()
                if not frame:
                    break
                a.frames.append(frame)
                a.body += frame
        elif "content-length" in a.headers:
            a.body = self.exactly(int(a.headers["content-length"]))
        else:
            while self.more():
                pass
            a.body, self.pending = self.pending, b""
        return a

    def closed(self, timeout=5.0):
        """True when the server closes within the time; what it sends before is dropped."""
        self.sock.settimeout(timeout)
        end = time.monotonic() + timeout
        try:
            while time.monotonic() < end:
                if not self.sock.recv(65536):
                    return True
        except ConnectionError:
            return True
        except socket.timeout:
            pass
        return False

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def close(self):
        self.sock.close()


def request_bytes(method, path, body=None, headers=None, version="HTTP/1.1"):
    h = {"Host": "%s:1" % HOST}
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    if body is not None:
        h["Content-Type"] = "application/json"
        h["Content-Length"] = str(len(body))
    h.update(headers or {})
    lines = ["%s %s %s" % (method, path, version)] + ["%s: %s" % kv for kv in h.items() if kv[1] is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")


def ask(port, method, path, body=None, headers=None, version="HTTP/1.1", timeout=15.0):
    c = Client(port, timeout)
    try:
        c.request(method, path, body, headers, version)
        return c.answer(method)
    finally:
        c.close()


def valid(schema, value, root=None):
    """Why value does not fit, or None. The part of JSON Schema that chunk.schema.json uses."""
    root = root or schema
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        return valid(target, value, root)
    names = {"object": dict, "array": list, "string": str, "null": type(None)}
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = lambda k: isinstance(value, int) and not isinstance(value, bool) if k == "integer" else isinstance(value, names[k])
        if not any(fits(k) for k in kinds):
            return "%r is not %s" % (value, kinds)
    if "const" in schema and value != schema["const"]:
        return "%r is not %r" % (value, schema["const"])
    if "enum" in schema and value not in schema["enum"]:
        return "%r is not one of %r" % (value, schema["enum"])
    for word, low in (("anyOf", 1), ("oneOf", 1)):
        if word in schema:
            hits = [s for s in schema[word] if valid(s, value, root) is None]
            if len(hits) < low or (word == "oneOf" and len(hits) > 1):
                return "%r fits %d of %s" % (value, len(hits), word)
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        return "%r is too short" % value
    if isinstance(value, int) and value < schema.get("minimum", value):
        return "%r is too small" % value
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return "%d items" % len(value)
        for item in value:
            why = valid(schema.get("items", {}), item, root)
            if why:
                return why
    if isinstance(value, dict):
        for k in schema.get("required", []):
            if k not in value:
                return "%s is missing" % k
        for k, v in value.items():
            if k in schema.get("properties", {}):
                why = valid(schema["properties"][k], v, root)
                if why:
                    return "%s: %s" % (k, why)
            elif schema.get("additionalProperties") is False:
                return "unexpected member %s" % k
    return None


def cases(name):
    with open(os.path.join(ROOT, "tests", "cases", name), encoding="utf-8") as f:
        return json.load(f)


def expand(parts):
    """Bytes of a cases-bytes/1 item."""
    out = b""
    for p in parts:
        if "text" in p:
            out += p["text"].encode()
        elif "hex" in p:
            out += bytes.fromhex(p["hex"])
        elif "utf16le" in p:
            out += p["utf16le"].encode("utf-16-le")
        elif "repeat" in p:
            out += p["repeat"].encode() * p["times"]
        elif "repeat_hex" in p:
            out += bytes.fromhex(p["repeat_hex"]) * p["times"]
        else:
            raise ValueError("unknown part %r" % p)
    return out
