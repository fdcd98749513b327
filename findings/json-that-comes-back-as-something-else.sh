#!/usr/bin/env bash
# Valid JSON, read and written again by one library, is another number, or no JSON.
#
# Version    json of CPython 3.11, simplejson 4.3.0, ujson 6.1.0, orjson 3.13.0, msgspec 0.22.0 (PyPI), default settings
# Behaviour  Each text is JSON by the grammar of RFC 8259, which limits neither the size of a number nor the escapes of a text. A whole
#            number beyond 64 bits becomes a rounded one with an exponent in orjson, without an error; the others keep its digits. 1e400 is
#            infinite in json and ujson, which write it as `Infinity`: that is no JSON. simplejson reads it and cannot write it. An escape
#            of half a pair (\ud800) is a text in json, simplejson and ujson, which UTF-8 cannot hold, and refused by orjson and msgspec.
# Lanyard    reads numbers of an identity service up to the end of their range, and sends bodies through as they are.
# Seen       28 November 2026, the lines below: what is written after reading
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check simplejson==4.3.0 ujson==6.1.0 orjson==3.13.0 msgspec==0.22.0

cat >"$folder/expected" <<'TEXT'
18446744073709551615
  json        18446744073709551615
  simplejson  18446744073709551615
  ujson       18446744073709551615
  orjson      18446744073709551615
  msgspec     18446744073709551615
18446744073709551616
  json        18446744073709551616
  simplejson  18446744073709551616
  ujson       18446744073709551616
  orjson      1.8446744073709552e+19
  msgspec     18446744073709551616
123456789012345678901234567890
  json        123456789012345678901234567890
  simplejson  123456789012345678901234567890
  ujson       123456789012345678901234567890
  orjson      1.2345678901234568e+29
  msgspec     123456789012345678901234567890
1e400
  json        Infinity
  simplejson  read, and not written (ValueError)
  ujson       Infinity
  orjson      refused (JSONDecodeError)
  msgspec     refused (ValidationError)
"\ud800"
  json        "\ud800"
  simplejson  "\ud800"
  ujson       "\ud800"
  orjson      refused (JSONDecodeError)
  msgspec     refused (DecodeError)
TEXT

cat >"$folder/try.py" <<'PYTHON'
import json

import msgspec
import orjson
import simplejson
import ujson

libraries = {
    "json": (json.loads, json.dumps),
    "simplejson": (simplejson.loads, simplejson.dumps),
    "ujson": (ujson.loads, ujson.dumps),
    "orjson": (orjson.loads, lambda value: orjson.dumps(value).decode()),
    "msgspec": (msgspec.json.decode, lambda value: msgspec.json.encode(value).decode()),
}
for text in ["18446744073709551615", "18446744073709551616", "123456789012345678901234567890", "1e400", r'"\ud800"']:
    print(text)
    for name, (read, write) in libraries.items():
        try:
            value = read(text)
        except ValueError as error:
            result = f"refused ({type(error).__name__})"
        else:
            try:
                result = write(value)
            except (ValueError, OverflowError, TypeError) as error:
                result = f"read, and not written ({type(error).__name__})"
        print(f"  {name:10}  {result}")
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen"
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
