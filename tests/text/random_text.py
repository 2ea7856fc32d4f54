"""Strings that are hard on tokenizers: a mixture of code, prose, classes of Unicode, white space, control tokens, marks."""
import unicodedata

WORDS = ("the quick brown fox def return self import class lambda if else for while None True print range len value index result "
         "don't it's I'll we've they'd GO'S o'clock http www json null error token naïve café Straße").split()
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; i++) {\n\ta[i] = b[i];\n}\n", "if (!p) goto out;\r\n", "x = {'a': [1, 2.5e-3], \"b\": None}",
        "#include <stdio.h>\n\nint main(void)\n{\n\treturn 0;\n}\n", "<div class=\"a\">&nbsp;</div>\n", "SELECT * FROM t WHERE a >= 10;\n", "a->b.c(d)[e] <<= 0xFFu;", "// TODO\n\n\n\n", "    @property\n    def x(self) -> int: ..."]
PUNCTUATION = ".,;:!?'\"()[]{}<>-_=+*/\\|&^%$#@~`…—–‘’“”«»¿¡§¶†‡•·"
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\u180e",
          "\u200b", "\ufeff", " \n ", "\n \r ", "\n\r\n"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "1️⃣", "☃", "🫨"]
MARKS = ["\u0301", "\u0308", "\u0327", "\u20dd", "\u0e34", "\u093f", "\u05b0", "\u064b", "\u1ab0", "\ufe20"]
SCRIPTS = ["Привет мир", "你好世界", "こんにちは", "안녕하세요", "שלום", "مرحبا", "नमस्ते", "สวัสดี", "Γειά σου", "Ünïcödé ßẞ", "ǅǈ ªº ⅣⅧ ½¾ ٣٤ ೬ ²³ ①②", "𝒳𝓎𝔷 𐍈 𠮷 𝟘𝟙"]
BROKEN = ["<think", "think>", "</think >", "<|EOS|>", "〈|EOS|", "〈|EOS|〉〉", "<tool_call", "</assistant", "<user>", "</user>", "<arg_key>"]


def any_char(rng):
    while True:
        c = rng.choice((rng.randrange(0x80), rng.randrange(0x800), rng.randrange(0x10000), rng.randrange(0x110000)))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def letters(rng):
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCXYZéßñд漢") for _ in range(rng.randint(1, 12)))


def piece(rng, tokens):
    kind = rng.randrange(14)
    if kind == 0:
        return rng.choice(CODE)
    if kind <= 2:
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 6)))
    if kind == 3:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 4:
        return rng.choice(SPACES) * rng.choice((1, 2, 3, 7, 20))
    if kind == 5:
        return rng.choice(tokens) if rng.random() < 0.8 else rng.choice(BROKEN)
    if kind == 6:
        return rng.choice(EMOJI)
    if kind == 7:
        return rng.choice("aeo e1 ;") + "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 3)))
    if kind == 8:
        return rng.choice(SCRIPTS)
    if kind == 9:
        return "".join(any_char(rng) for _ in range(rng.randint(1, 5)))
    if kind == 10:
        return "".join(rng.choice(PUNCTUATION) for _ in range(rng.randint(1, 5)))
    if kind == 11:
        return str(rng.choice((rng.randrange(10), rng.randrange(10**6), rng.random(), rng.randrange(10**20))))
    if kind == 12:
        return rng.choice(("'", "\u2019")) + rng.choice(("s", "S", "t", "RE", "ve", "ſ", "M", "ll", "lL", "d", "x"))
    return letters(rng)


def text(rng, tokens):
    s = "".join(piece(rng, tokens) for _ in range(rng.randint(0, 10)))
    if rng.random() < 0.1:
        s = unicodedata.normalize(rng.choice(("NFC", "NFD", "NFKC", "NFKD")), s)
    if s and rng.random() < 0.1:  # cut anywhere, also inside of a token
        at = rng.randrange(len(s))
        s = s[at:] + s[:at]
    return s
