"""The program of text_lines.c: asks come in lists, answers in the same order."""
import json
import subprocess
import threading


class TextLines:
    def __init__(self, program, tokenizer, template=None):
        command = [program, str(tokenizer)] + ([str(template)] if template else [])
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, requests):
        """Writes all of them while reading: neither pipe can fill up and stop both sides."""
        lines = [json.dumps(r, ensure_ascii=False).encode() + b"\n" for r in requests]
        writer = threading.Thread(target=self.send, args=(lines,))
        writer.start()
        answers = [self.child.stdout.readline() for _ in lines]
        writer.join()
        for request, answer in zip(requests, answers):
            if not answer:
                raise RuntimeError(f"no answer, exit code {self.child.wait()}, after or at {json.dumps(request)[:2000]}")
        return [json.loads(a) for a in answers]

    def send(self, lines):
        try:
            for line in lines:
                self.child.stdin.write(line)
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # the reader says which line it was

    def close(self):
        self.child.stdin.close()
        return self.child.wait()
