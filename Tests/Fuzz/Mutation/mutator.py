"""Changes messages, by a seed: flips, cuts, repeats, words of the dictionaries, splices, and changes of TLS records."""

import base64
import json
import os
import random
import re

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BYTES_MAX = 1 << 17
NUMBERS = [b"0", b"-1", b"1", b"00", b"127", b"128", b"255", b"256", b"65535", b"65536", b"2147483648", b"4294967296",
           b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"1e400", b"0x10", b"+5", b"5, 5"]
# Every secret has it, and nothing else.
MARK = b"QzCanary"
NEUTRAL = b"QzPlainn"


def words(*names):
    """The words of dictionaries of the fuzz heads."""
    found = []
    for name in names:
        with open(f"{FOLDER}/Dictionaries/{name}.dict", encoding="ascii") as file:
            for text in re.findall(r'^"(.*)"$', file.read(), re.M):
                found.append(re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", unescaped, text.encode()))
    return found


def unescaped(match):
    text = match[1]
    return bytes([int(text[1:], 16)]) if len(text) == 3 else text


def corpus(name):
    """The inputs of a fuzz head: each line of the file is one."""
    with open(f"{FOLDER}/Corpora/{name}.txt", "rb") as file:
        text = file.read().split(b"\n")[:-1]
    short = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\"}
    return [re.sub(rb"\\(x[0-9a-f]{2}|.)", lambda match: short.get(match[1]) or unescaped(match), line) for line in text]


class Message:
    """What one side sends: bytes in pieces, then the end of the connection.

    `seed` is for what cannot be written down, such as the records of a live TLS connection: it says how they change.
    """
    __slots__ = ("door", "kind", "pieces", "ending", "seed", "note")

    def __init__(self, door, kind, pieces, ending="half", seed=0, note=""):
        self.door, self.kind, self.pieces, self.ending, self.seed, self.note = door, kind, pieces, ending, seed, note

    def line(self):
        return json.dumps({"door": self.door, "kind": self.kind, "ending": self.ending, "seed": self.seed, "note": self.note,
                           "pieces": [base64.b64encode(piece).decode() for piece in self.pieces]})

    @staticmethod
    def read(line):
        value = json.loads(line)
        pieces = [base64.b64decode(piece) for piece in value["pieces"]]
        return Message(value["door"], value["kind"], pieces, value["ending"], value["seed"], value["note"])


class Mutator:
    def __init__(self, random, dictionary, others):
        self.random, self.words, self.others = random, dictionary, others

    def mutate(self, data):
        """One to eight changes; the first ones are the likelier."""
        count = 1
        while count < 8 and self.random.random() < 0.4:
            count += 1
        for _ in range(count):
            data = self.random.choice(self.CHANGES)(self, data)[:BYTES_MAX]
        return data

    def place(self, data):
        return self.random.randrange(len(data) + 1)

    def span(self, data, longest=64):
        start = self.place(data)
        return start, min(len(data), start + self.random.randint(1, longest))

    def flip(self, data):
        if not data:
            return data
        index = self.random.randrange(len(data))
        return data[:index] + bytes([data[index] ^ 1 << self.random.randrange(8)]) + data[index + 1:]

    def set_byte(self, data):
        if not data:
            return data
        index = self.random.randrange(len(data))
        return data[:index] + bytes([self.random.choice(b'\0\t\n\r "%,/:;\\\x7f\x80\xff') if self.random.random() < 0.7
                                     else self.random.randrange(256)]) + data[index + 1:]

    def insert(self, data):
        index = self.place(data)
        return data[:index] + self.random.randbytes(self.random.randint(1, 8)) + data[index:]

    def remove(self, data):
        start, end = self.span(data)
        return data[:start] + data[end:]

    def cut(self, data):
        return data[:self.place(data)]

    def repeat(self, data):
        start, end = self.span(data)
        times = self.random.choice([2, 2, 3, 8, 64, 1024])
        return data[:end] + data[start:end] * times + data[end:]

    def swap(self, data):
        first, second = sorted([self.span(data), self.span(data)])
        if first[1] > second[0]:
            return data
        return data[:first[0]] + data[second[0]:second[1]] + data[first[1]:second[0]] + data[first[0]:first[1]] + data[second[1]:]

    def word(self, data):
        start, end = self.span(data, 16)
        return data[:start] + self.random.choice(self.words) + data[end if self.random.random() < 0.5 else start:]

    def number(self, data):
        numbers = list(re.finditer(rb"\d+", data))
        if not numbers:
            return self.word(data)
        match = self.random.choice(numbers)
        return data[:match.start()] + self.random.choice(NUMBERS) + data[match.end():]

    def line(self, data):
        """Drops, repeats or moves a line."""
        lines = data.split(b"\r\n")
        index = self.random.randrange(len(lines))
        line = lines.pop(index) if self.random.random() < 0.5 else lines[index]
        if self.random.random() < 0.6:
            lines.insert(self.random.randrange(len(lines) + 1), line)
        return b"\r\n".join(lines)

    def splice(self, data):
        other = self.random.choice(self.others)
        return data[:self.place(data)] + other[self.place(other):]

    CHANGES = [flip, flip, set_byte, set_byte, insert, remove, cut, repeat, swap, word, word, number, line, splice]

    def pieces(self, data):
        """Sometimes in several writes."""
        if len(data) < 2 or self.random.random() < 0.7:
            return [data]
        cuts = sorted(self.random.randrange(1, len(data)) for _ in range(self.random.randint(1, 4)))
        return [data[start:end] for start, end in zip([0] + cuts, cuts + [len(data)]) if start < end]

    def ending(self):
        return self.random.choices(["half", "close", "reset"], [8, 1, 1])[0]

    # Records of TLS: type, version, length, body.

    def records(self, data):
        """Bytes of whole records, changed in their headers, bodies, number and order."""
        records = split_records(data)
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            records = self.random.choice(self.RECORD_CHANGES)(self, records or [self.foreign_record()])
        return b"".join(records)[:BYTES_MAX]

    def record_bytes(self, records):
        index = self.random.randrange(len(records))
        head, body = records[index][:5], self.mutate(records[index][5:])[:(1 << 14) + 300]
        # Mostly with a length that fits, so that the body is looked at.
        if self.random.random() < 0.8:
            head = head[:3] + len(body).to_bytes(2, "big")
        return records[:index] + [head + body] + records[index + 1:]

    def record_head(self, records):
        index = self.random.randrange(len(records))
        head = bytearray(records[index][:5].ljust(5, b"\0"))
        head[self.random.randrange(5)] = self.random.choice([0, 1, 2, 3, 4, 20, 21, 22, 23, 24, 127, 255])
        return records[:index] + [bytes(head) + records[index][5:]] + records[index + 1:]

    def record_order(self, records):
        records = list(records)
        record = records.pop(self.random.randrange(len(records)))
        for _ in range(self.random.choice([0, 1, 1, 2, 40])):
            records.insert(self.random.randrange(len(records) + 1), record)
        return records

    def record_split(self, records):
        index = self.random.randrange(len(records))
        head, body = records[index][:3], records[index][5:]
        size = self.random.choice([1, 2, 7, 100])
        parts = [body[start:start + size] for start in range(0, len(body), size)] or [b""]
        return records[:index] + [head + len(part).to_bytes(2, "big") + part for part in parts] + records[index + 1:]

    def record_foreign(self, records):
        index = self.random.randrange(len(records) + 1)
        return records[:index] + [self.foreign_record()] * self.random.choice([1, 1, 3, 50]) + records[index:]

    def record_cut(self, records):
        data = b"".join(records)
        return [data[:self.place(data)]]

    RECORD_CHANGES = [record_bytes, record_bytes, record_bytes, record_head, record_order, record_split, record_foreign, record_cut]

    def foreign_record(self):
        body = self.random.choice([
            b"\x01", b"\x01\x00", b"\x02\x28", b"\x01\x5a", b"\x01\x64", b"", b"\x00" * 4, b"\x18\0\0\1\0", b"\x04\0\0\0",
            b"\x01\x00\x00\x00", b"\x0b\xff\xff\xff", b"\x00\x00\x00\x00" * 9, self.random.randbytes(self.random.randint(0, 300))])
        kind = self.random.choice([20, 21, 21, 22, 22, 23, 24])
        return bytes([kind, 3, self.random.choice([1, 3, 3, 4])]) + len(body).to_bytes(2, "big") + body


def split_records(data):
    records = []
    while len(data) >= 5:
        end = 5 + int.from_bytes(data[3:5], "big")
        records.append(data[:end])
        data = data[end:]
    return records + ([data] if data else [])


def record_rewriter(message, dictionary):
    """For `TLSStream`: changes the flight that the message's note names."""
    def rewrite(data, flight):
        return Mutator(random.Random(message.seed), dictionary, [data]).records(data) if flight == int(message.note) else data
    return rewrite


def with_secrets_only(data, place):
    """Takes the mark of a secret out of each place where it may be shown: what a mutation has made of a secret is none.

    `place` matches from the beginning of a secret's place up to the mark.
    """
    if MARK not in data:
        return data
    kept = {match.end() - len(MARK) for match in re.finditer(place, data)}
    return re.sub(MARK, lambda match: MARK if match.start() in kept else NEUTRAL, data)
