#!/usr/bin/env python3
"""Writes the software bill of materials of a program: CycloneDX 1.5, JSON.

    deploy/packaging/sbom.py --program PATH --version VERSION --commit NAME --swift VERSION --resolved Package.resolved
                             --packages NAME,... --late SONAME,... --epoch SECONDS > PROGRAM.cdx.json

Components: what is linked into the program (the Swift runtime, the named Swift packages with version and revision), and the libraries of the
machine that it loads (those of --late at their first use), by Debian package and version, as they were at the build. The same arguments and
program give the same bytes.
"""

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import uuid

LICENSES = {
    "swift-runtime": {"expression": "Apache-2.0 WITH Swift-exception"},
    "swift-argument-parser": {"expression": "Apache-2.0 WITH Swift-exception"},
    "swift-log": {"license": {"id": "Apache-2.0"}},
    "flyingfox": {"license": {"id": "MIT"}},
    "libcurl": {"license": {"id": "curl"}},
    "OpenSSL": {"license": {"id": "Apache-2.0"}},
    "libyaml": {"license": {"id": "MIT"}},
}
# Packages that deploy/package changes: the file that replaces one of theirs.
PATCHED = {"swift-argument-parser": "deploy/packaging/ArgumentParserFoundation.swift"}
# Names of the projects behind sonames. libc, libm, libgcc_s and libstdc++ are named by their files.
PROJECTS = {"libcurl": "libcurl", "libssl": "OpenSSL", "libcrypto": "OpenSSL", "libyaml-0": "libyaml"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(program):
    """The sonames that the program needs."""
    lines = run("readelf", "-d", "-W", program).split("\n")
    return sorted(line.split("[")[1].split("]")[0] for line in lines if "(NEEDED)" in line)


def debian_packages(program, late):
    """(Debian package, version, architecture) of each library, by soname."""
    owners = {}
    paths = {}
    for line in run("/sbin/ldconfig", "-p").split("\n"):
        words = line.split()
        if "=>" in words and words[0] in late:
            paths.setdefault(words[0], words[-1])
    for line in run("ldd", program).split("\n"):
        words = line.split()
        if len(words) > 2 and words[1] == "=>":
            paths[words[0]] = words[2]
    for soname in sorted([*needed(program), *late]):
        path = paths.get(soname)
        if not path:
            continue
        for candidate in (path, os.path.realpath(path), path.removeprefix("/usr"), os.path.realpath(path).removeprefix("/usr")):
            found = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True).stdout
            if found:
                package = found.split(": ")[0].split(",")[0]
                name, version, architecture = run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", package).split()
                owners[soname] = (name, version, architecture)
                break
    return owners


def swift_components(arguments):
    runtime = {
        "type": "library", "bom-ref": "swift-runtime", "name": "swift-runtime", "version": arguments.swift,
        "purl": f"pkg:github/swiftlang/swift@swift-{arguments.swift}-RELEASE", "licenses": [LICENSES["swift-runtime"]],
        "properties": [{"name": "lanyard:linkage", "value": "static"}],
    }
    components = [runtime]
    with open(arguments.resolved, encoding="utf-8") as file:
        pins = {pin["identity"]: pin for pin in json.load(file)["pins"]}
    for name in sorted(filter(None, arguments.packages.split(","))):
        pin = pins[name]
        location = pin["location"].removesuffix(".git")
        version = pin["state"].get("version", pin["state"]["revision"])
        component = {
            "type": "library", "bom-ref": name, "name": location.rsplit("/", 1)[1], "version": version,
            "purl": f"pkg:swift/{location.removeprefix('https://')}@{version}", "licenses": [LICENSES[name]],
            "externalReferences": [{"type": "vcs", "url": location}],
            "properties": [
                {"name": "lanyard:linkage", "value": "static"},
                {"name": "lanyard:revision", "value": pin["state"]["revision"]},
            ],
        }
        if name in PATCHED:
            component["pedigree"] = {"patches": [{"type": "unofficial", "diff": {"url": PATCHED[name]}}]}
        components.append(component)
    return components


def library_components(program, late):
    """One component for each Debian package, with the sonames that the program needs of it."""
    sonames = {}
    for soname, package in debian_packages(program, late).items():
        sonames.setdefault(package, []).append(soname)
    components = []
    for (name, version, architecture), files in sorted(sonames.items()):
        project = next((PROJECTS[each.split(".so")[0]] for each in files if each.split(".so")[0] in PROJECTS), name)
        component = {
            "type": "library", "bom-ref": f"deb:{name}", "name": project, "version": version,
            "purl": f"pkg:deb/debian/{name}@{version.replace('+', '%2B')}?arch={architecture}",
            "properties": [{"name": "lanyard:linkage", "value": "dynamic"}]
            + [{"name": "lanyard:soname", "value": each} for each in sorted(files)],
        }
        if project in LICENSES:
            component["licenses"] = [LICENSES[project]]
        components.append(component)
    return components


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "version", "commit", "swift", "resolved", "packages", "late", "epoch"):
        parser.add_argument("--" + name, required=True)
    arguments = parser.parse_args()
    name = os.path.basename(arguments.program)
    with open(arguments.program, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    late = list(filter(None, arguments.late.split(",")))
    components = swift_components(arguments) + library_components(arguments.program, late)
    moment = datetime.datetime.fromtimestamp(int(arguments.epoch), datetime.timezone.utc)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'lanyard:{name}:{arguments.version}:{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": name, "name": name, "version": arguments.version,
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "lanyard:commit", "value": arguments.commit}],
            },
        },
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [each["bom-ref"] for each in components]}],
    }
    print(json.dumps(document, indent=2))


main()
