#!/usr/bin/env python3
"""Writes the manual page lanyard.yaml(5) from the tables of the pages about keys, which a test compares with the program's keys.

    deploy/packaging/configuration_manual.py [--date YYYY-MM-DD] docs/use/configuration-*.md > lanyard.yaml.5
"""

import argparse
import datetime
import re
import sys

from manual import MONTHS, escaped, prose

HEAD = "| key | value | default | meaning |"


def plain(cell):
    """A cell without the marks of Markdown."""
    cell = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell.strip())
    return cell.replace("`", "").replace("*", "") if not cell.startswith("`") else cell.replace("`", "")


def sections(lines):
    """(heading, rows) of each table of keys; a row is (key, value, default, meaning)."""
    heading, rows = None, None
    for line in lines:
        if line.startswith("## "):
            heading, rows = line[3:].strip(), None
        elif line.strip() == HEAD:
            rows = []
            yield heading, rows
        elif rows is not None and line.startswith("| `"):
            cells = [each.replace("\0", "|") for each in line.replace("\\|", "\0").strip().strip("|").split("|")]
            rows.append([plain(each) for each in cells])
        elif rows is not None and not line.startswith("|"):
            rows = None


def page(lines, date):
    out = [
        f".Dd {MONTHS[date.month - 1]} {date.day}, {date.year}", ".Dt LANYARD.YAML 5", ".Os", ".Sh NAME",
        ".Nm lanyard.yaml", ".Nd configuration of lanyard", ".Sh DESCRIPTION",
        prose("One strict YAML file: UTF-8, one document, no key twice, no unknown key, no anchors, aliases or tags. "
              "A duration is a whole number and ms, s, m, h or d, a size one and B, KiB, MiB or GiB. "
              "Paths start from the folder of the file. Secrets are files, never values."),
        ".Pp", prose("In names of keys [] stands for an element of a list, and * for a chosen name."), ".Pp",
        ".Cm lanyard check", prose("says all that is wrong with a file, each finding with its place."),
    ]
    for heading, rows in list(sections(lines)):
        out += [f".Ss {heading}", ".Bl -tag -width Ds"]
        for key, value, default, meaning in rows:
            out += [f".It Cm {escaped(key)}", prose(meaning), ".Pp", prose(f"Value: {value}.")]
            if default:
                out.append(prose(f"Default: {default}." if default != "required" else "It is required."))
        out.append(".El")
    out += [
        ".Sh EXAMPLES", ".Bd -literal -offset indent",
        escaped("identities:\n  corp:\n    oauth2:\n      issuer: https://idp.example.com\n      client_id: lanyard\n"
                "      client_secret_file: /run/secrets/client\nusers:\n  robot: {identity: corp, login: {client_credentials: {}}}\n"
                "routes:\n  - upstream: https://api.example.com"), ".Ed",
        # Not `.Xr`: mandoc warns of a page that is not installed.
        ".Sh SEE ALSO", "The page lanyard(1) has the commands.",
    ]
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument("pages", nargs="+")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    lines = []
    for path in arguments.pages:
        with open(path, encoding="utf-8") as file:
            lines += file.read().split("\n")
    sys.stdout.write(page(lines, arguments.date))


main()
