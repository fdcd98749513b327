#!/usr/bin/env bash
# Text that PyYAML writes is a number, or infinite, to the next reader.
#
# Version    PyYAML 6.0.4 writes, ruamel.yaml 0.19.1 (YAML 1.2) reads (PyPI)
# Behaviour  PyYAML leaves out the quotes of a text that would be no number by its own rules. It wants a dot in each number with an exponent
#            and knows no 0o17, so that abbreviated commits and ids with one `e` among digits are written bare. A reader of YAML 1.2
#            takes them for numbers. Texts that look far more like numbers (012, 0x1f, 12:30, 1_000) do get quotes. Both keep to their
#            version of YAML; the file names none.
# Lanyard    refuses or warns of such text without quotes in lanyard.yaml.
# Seen       28 November 2026, the lines below
set -eu
folder=$(mktemp -d "${TMPDIR:-/tmp}/finding-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check PyYAML==6.0.4 ruamel.yaml==0.19.1

cat >"$folder/expected" <<'TEXT'
'7e12345' is written as k: 7e12345 and read as inf
'1234e56' is written as k: 1234e56 and read as 1.234e+59
'12e5' is written as k: 12e5 and read as 1200000.0
'1.5e3' is written as k: 1.5e3 and read as 1500.0
'0o17' is written as k: 0o17 and read as 15
'08' is written as k: 08 and read as 8
'012' is written as k: '012' and read as '012'
'0x1f' is written as k: '0x1f' and read as '0x1f'
'12:30' is written as k: '12:30' and read as '12:30'
'1_000' is written as k: '1_000' and read as '1_000'
TEXT

cat >"$folder/try.py" <<'PYTHON'
import ruamel.yaml
import yaml

reader = ruamel.yaml.YAML(typ="safe")
for text in ["7e12345", "1234e56", "12e5", "1.5e3", "0o17", "08", "012", "0x1f", "12:30", "1_000"]:
    written = yaml.safe_dump({"k": text}).strip()
    assert yaml.safe_load(written) == {"k": text}
    print(f"{text!r} is written as {written} and read as {reader.load(written)['k']!r}")
PYTHON
env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 "$folder/venv/bin/python" -B "$folder/try.py" >"$folder/seen"
cat "$folder/seen"
diff "$folder/expected" "$folder/seen" >&2 || { echo "changed: see above" >&2; exit 1; }
echo "as described"
