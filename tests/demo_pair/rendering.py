"""Prompts of the mix as token ids, with the template environment of the golden generators."""
import json
import os
import sys

from configs import BOS_ID

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN_GENERATORS = os.path.join(HERE, "..", "golden", "generate")
PROMPTS = os.path.join(HERE, "..", "prompts.jsonl")
TARGET_FOLDER = os.path.join(HERE, "..", "..", "target", "demo")
DRAFT_FOLDER = os.path.join(HERE, "..", "..", "draft", "demo")

sys.path.insert(0, GOLDEN_GENERATORS)


class Renderer:
    def __init__(self, target_folder):
        from render import environment
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(os.path.join(target_folder, "tokenizer.json"))
        with open(os.path.join(target_folder, "chat_template.jinja"), encoding="utf-8") as f:
            self.template = environment().from_string(f.read())

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def ids(self, row):
        """Token ids of one line of the prompt mix."""
        if "prompt_ids" in row:
            return row["prompt_ids"]
        if "prompt" in row:
            return [BOS_ID] + self.encode(row["prompt"])
        return self.encode(self.template.render(messages=row["messages"], tools=row.get("tools"),
                                                enable_thinking=row["enable_thinking"], add_generation_prompt=True))


def read_prompts(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]
