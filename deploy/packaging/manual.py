#!/usr/bin/env python3
"""Writes the manual page (mdoc) of a program from the description that it gives of itself.

    PROGRAM --experimental-dump-help | deploy/packaging/manual.py [--date YYYY-MM-DD] [--section NAME=FILE]... > PROGRAM.1

--section adds a section whose text is mdoc already. Sections follow the commands in the order of the flags; mdoc(7) wants FILES before
EXIT STATUS.
"""

import argparse
import datetime
import json
import re
import sys
import textwrap

MONTHS = "January February March April May June July August September October November December".split()


def escaped(text):
    """Text that roff takes as it is."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])(-{1,2})(?=\w)", lambda dashes: "\\-" * len(dashes[1]), text)
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def prose(text):
    """Each sentence begins a line, and no line is longer than 80 bytes, as mdoc wants it."""
    sentences = re.split(r"(?<=[A-Za-z0-9)][.?!]) (?=[A-Z])", " ".join(text.split()))
    lines = [line for each in sentences for line in textwrap.wrap(escaped(each), 78, break_long_words=False, break_on_hyphens=False)]
    # A wrapped line may begin with what escaped() could not see at the beginning.
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def value(argument):
    """The name of an option's value as mdoc, such as ` Ar path`. One that repeats the option's name is its last word alone."""
    if argument["kind"] != "option":
        return ""
    name = argument["valueName"]
    return f" Ar {name.split('-')[-1] if any(each['name'] == name for each in argument['names']) else name}"


def flags(argument):
    """The names of an option as mdoc macros, such as `Fl Fl config Ar path`."""
    names = []
    for name in argument["names"]:
        names.append(("Fl " if name["kind"] == "short" else "Fl Fl ") + name["name"])
    return " , ".join(name + value(argument) for name in names)


def shown(command, kind):
    return [each for each in command.get("arguments", []) if each["kind"] in kind and each.get("shouldDisplay", True)]


def synopsis(command):
    """The macros behind the command's name."""
    words = []
    for option in shown(command, ("flag", "option")):
        if option["valueName"] not in ("help", "version"):
            name = option["preferredName"]
            words.append(("Fl " if name["kind"] == "short" else "Fl Fl ") + name["name"] + value(option))
    lines = [f".Op {word}" for word in words]
    for positional in shown(command, ("positional",)):
        word = f"Ar {positional['valueName']}" + (" ..." if positional["isRepeating"] else "")
        lines.append((".Op " if positional["isOptional"] else ".") + word)
    return lines


def leaves(command, path=()):
    """(words behind the program's name, command) of each command that does something."""
    children = [each for each in command.get("subcommands", []) if each["commandName"] != "help"]
    if not children:
        yield path, command
    for child in children:
        yield from leaves(child, path + (child["commandName"],))


def discussion(text):
    """A discussion: paragraphs, and lists of flags as `  --name` with an indented text below it."""
    lines, is_list = [], False
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith("Examples:\n"):
            # What the section EXAMPLES has is for the page, this is for one command.
            lines += [".Pp", "Examples:", ".Bd -literal -offset indent"]
            lines += [escaped(line.strip()) for line in block.split("\n")[1:]] + [".Ed"]
        elif re.search(r"^ {2}-", block, re.M):
            for line in block.split("\n"):
                if re.match(r"^ {2}-", line):
                    if not is_list:
                        lines.append(".Bl -tag -width Ds")
                        is_list = True
                    lines.append(f".It Fl Fl {line.strip().lstrip('-')}")
                elif re.match(r"^ {6}", line):
                    lines.append(prose(line))
                else:
                    if is_list:
                        lines.append(".El")
                        is_list = False
                    lines += [".Pp", prose(line)]
            if is_list:
                lines.append(".El")
                is_list = False
        else:
            lines += [".Pp", prose(block)]
    return lines


def described(program, path, command, known):
    """The section's part of one command. `known` has the discussions that an earlier command has shown, by their texts."""
    lines = [f".Ss {program} {' '.join(path)}".rstrip(), prose(command.get("abstract", ""))]
    text = command.get("discussion", "")
    # One sentence or two may differ; a list of flags that was shown is not repeated.
    introduction, _, rest = text.partition("\n\n")
    if rest and rest in known:
        lines += [".Pp", prose(introduction), ".Pp", f"The flags are those of {known[rest]}."]
    elif text:
        lines += discussion(text)
        known[rest] = " ".join(path) or program
    options = [each for each in shown(command, ("flag", "option")) if each["valueName"] != "help"]
    if options:
        lines.append(".Bl -tag -width Ds")
        for option in options:
            lines.append(f".It {flags(option)}")
            default = option.get("defaultValue")
            text = prose(option.get("abstract", ""))
            lines.append(text + ("\n" + prose(f"Default: {default}.") if default else ""))
        lines.append(".El")
    return lines


def page(description, date, sections):
    command = description["command"]
    program = command["commandName"]
    commands = list(leaves(command))
    lines = [
        f".Dd {MONTHS[date.month - 1]} {date.day}, {date.year}",
        f".Dt {program.upper()} 1", ".Os", ".Sh NAME", f".Nm {program}",
        f".Nd {escaped(command.get('abstract', program).rstrip('.'))}", ".Sh SYNOPSIS",
    ]
    for path, each in commands:
        # Without an argument: with one, groff does not begin a line with the command.
        lines += [".Nm"] + [f".Cm {word}" for word in path]
        lines += synopsis(each)
    lines.append(".Sh DESCRIPTION")
    known = {}
    if commands == [((), command)]:
        lines += described(program, (), command, known)[1:]
    else:
        lines += [prose(command.get("discussion") or command.get("abstract", "")), "The commands are as follows."]
        for path, each in commands:
            lines += described(program, path, each, known)
    for name, text in sections:
        lines += [f".Sh {name}", text.rstrip("\n")]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument("--section", action="append", default=[])
    arguments = parser.parse_args()
    sections = []
    for section in arguments.section:
        name, _, path = section.partition("=")
        with open(path, encoding="utf-8") as file:
            sections.append((name, file.read()))
    sys.stdout.write(page(json.load(sys.stdin), arguments.date, sections))


if __name__ == "__main__":
    main()
