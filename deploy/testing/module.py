"""`deploy/test --module NAME`: the tests of one module and the system suites that go through it, without building the others.

A test program of just these objects is linked: Swift Testing finds the tests that the program holds.
"""

import os
import re

from stages import DEAR, DEBUG_BUILD, LOGS, ROOT, SUITE, sources

# A line for each module: `RequestPath: StreamingRuleTests PersistenceRuleTests`.
TABLE = os.path.join(ROOT, "Tests/system-suites.txt")
LIBRARIES = ["-lssl", "-lcrypto", "-lyaml", "-lcurl", "-lnghttp2"]
ENTRY = """import Testing

@main struct Entry {
    static func main() async { await Testing.__swiftPMEntryPoint() as Never }
}
"""
# Sanitizers read their options when a program starts; the test program and the programs that it starts are built alike.
SCRATCH = {None: ".build", "thread": ".build-tsan", "address": ".build-asan"}


def module_names():
    """Lanyard, LanyardVault and so on, of the folders Tests/LanyardVaultTests; not the targets of system tests."""
    folders = [name for name in os.listdir(os.path.join(ROOT, "Tests")) if name.endswith("Tests")]
    return sorted(name.removesuffix("Tests") for name in folders if not name.startswith("System"))


def find_module(name):
    """A module by its name, which may lack `Lanyard` and have `Tests`."""
    bare = name.removesuffix("Tests")
    return next((module for module in (bare, "Lanyard" + bare) if module in module_names()), None)


def system_suites(module):
    """The system suites of a module by the table, by target, and the names that no target has."""
    wanted = []
    with open(TABLE, encoding="utf-8") as table:
        for line in table:
            name, _, rest = line.partition(":")
            if not line.startswith("#") and find_module(name.strip()) == module:
                wanted += rest.split()
    targets = {}
    for path, text in sources("System*Tests"):
        for suite in set(SUITE.findall(text)).intersection(wanted):
            targets.setdefault(os.path.relpath(path, os.path.join(ROOT, "Tests")).split(os.sep)[0], []).append(suite)
    found = {suite for members in targets.values() for suite in members}
    return targets, sorted(set(wanted) - found)


def objects(folder, targets):
    """The object files of targets and of what they import, by the build's manifest."""
    with open(os.path.join(ROOT, folder, "debug.yaml"), encoding="utf-8") as file:
        manifest = file.read()
    commands = {}
    for match in re.finditer(r'^  "C\.(\w+)-[^"]*-debug\.module":\n((?:    .*\n)*)', manifest, re.M):
        files = {key: re.findall(r'"((?:[^"\\]|\\.)*)"', values)
                 for key, values in re.findall(r"^    (inputs|outputs): \[(.*)\]$", match[2], re.M)}
        commands.setdefault(match[1], files)
    found, waiting, seen = {}, list(targets), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        files = commands[name]
        found.update(dict.fromkeys(path for path in files["outputs"] + files["inputs"] if path.endswith(".o")))
        waiting += [os.path.basename(path).removesuffix(".swiftmodule")
                    for path in files["inputs"] if path.endswith(".swiftmodule")]
    return list(found)


def preloaded_libraries():
    """Products that system tests load into programs; no target depends on them."""
    with open(os.path.join(ROOT, "Package.swift"), encoding="utf-8") as package:
        return re.findall(r'\.library\(name: "(\w+)", type: \.dynamic', package.read())


def is_current(library, folder):
    built = os.path.join(ROOT, folder, "debug", f"lib{library}.so")
    source = os.path.join(ROOT, "Tests", library)
    if not os.path.exists(built) or not os.path.isdir(source):
        return False
    return all(os.path.getmtime(entry.path) <= os.path.getmtime(built) for entry in os.scandir(source))


def link(stages, folder, module, targets):
    """Links the test program. Returns its name in the debug folder, or None."""
    products = os.path.join(ROOT, folder, "debug")
    flags = [f"-sanitize={name}" for name, scratch in SCRATCH.items() if name and scratch == folder] or ["-gnone"]
    entry, program = os.path.join(products, "module-entry.o"), module + "Tests.program"
    source, log, files = (os.path.join(LOGS, name) for name in ("module-entry.swift", "link.log", "link.objects"))
    if not os.path.exists(entry):
        with open(source, "w", encoding="utf-8") as file:
            file.write(ENTRY)
        command = ["swiftc", "-parse-as-library", "-c", "-module-name", "ModuleEntry", *flags, source, "-o", entry]
        if stages.capture(command, log) != 0:
            stages.report.fail(f"compiling the entry of the test program (all of it: {log})")
            return None
    # The test program also has the exit handler of all tests (Tests/TornSockets/exit.c) if a target brings it.
    with open(files, "w", encoding="utf-8") as file:
        file.writelines(path.replace(" ", "\\ ") + "\n" for path in objects(folder, targets))
    command = ["swiftc", "-emit-executable", "-module-name", "ModuleProgram", "-o", os.path.join(products, program), entry,
               "@" + files, *LIBRARIES, *flags, "-Xlinker", "-rpath=$ORIGIN"]
    with stages.stage("link"):
        is_linked = stages.capture(command, log) == 0
    if not is_linked:
        stages.report.fail(f"linking the tests of {module} (all of it: {log})")
    return program if is_linked else None


def run_module(stages, module, sanitizer=None):
    folder = SCRATCH[sanitizer]
    arguments = [f"--sanitize={sanitizer}", "--scratch-path", folder] if sanitizer else DEBUG_BUILD
    systems, unknown = system_suites(module)
    stages.report.untidy += [f"Tests/system-suites.txt: no suite {name}" for name in unknown]
    for target in [module + "Tests", *sorted(systems)]:
        if not stages.build(f"{target}{'-' + sanitizer if sanitizer else ''}", "--target", target, *arguments):
            return
    for library in preloaded_libraries() if systems else []:
        if not is_current(library, folder) and not stages.build(library, "--product", library, *arguments):
            return
    program = link(stages, folder, module, [module + "Tests", *systems])
    if not program:
        return
    chosen = "|".join(suite for members in systems.values() for suite in members)
    filters = ["--filter", f"^{module}Tests[.]" + (f"|^System[A-Za-z]*Tests[.]({chosen})/" if chosen else ""), "--skip", DEAR]
    if sanitizer:
        stages.sanitized_tests(module, sanitizer, folder, *filters, program=program)
    else:
        stages.tests(module, folder, *filters, program=program)
