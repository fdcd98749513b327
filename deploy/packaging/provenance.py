#!/usr/bin/env python3
"""Writes the provenance of a release: an in-toto statement with the fields of SLSA's provenance 1.0.

    deploy/packaging/provenance.py --folder DIST --version VERSION --commit SHA --epoch SECONDS --resolved Package.resolved
                                   --started SECONDS --builds N [--repository URL] [--builder URI] > FILE

It has what this machine knows: the digests of all files in the folder, the commit, the Swift packages, the toolchain and the Debian
packages of the build. Nothing attests it but the signature of SHA256SUMS. Without --builder there is no id of a builder, which SLSA wants.
"""

import argparse
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
from urllib.parse import quote

# Names the parameters below; there is no page behind it.
BUILD_TYPE = "urn:x-lanyard:deploy-release:1"
# What compiles, links and packs, besides the toolchain.
BUILD_PACKAGES = """binutils dpkg dpkg-dev g++ gcc gzip libc6-dev libcurl4-openssl-dev libnghttp2-dev libssl-dev libstdc++-12-dev
    libyaml-dev linux-libc-dev pkg-config python3 tar xz-utils""".split()


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def subjects(folder):
    return [{"name": name, "digest": {"sha256": digest(os.path.join(folder, name))}} for name in sorted(os.listdir(folder))]


def source(arguments):
    resource = {"name": "lanyard", "digest": {"gitCommit": arguments.commit}}
    if arguments.repository:
        resource["uri"] = f"git+{arguments.repository}@{arguments.commit}"
    return resource


def swift_packages(resolved):
    with open(resolved, encoding="utf-8") as file:
        pins = json.load(file)["pins"]
    for pin in sorted(pins, key=lambda pin: pin["identity"]):
        revision = pin["state"]["revision"]
        yield {"name": pin["identity"], "uri": f"git+{pin['location']}@{revision}", "digest": {"gitCommit": revision},
               "annotations": {"version": pin["state"].get("version", revision)}}


def toolchain():
    compiler = os.path.realpath(shutil.which("swiftc"))
    return {"name": "swift-frontend", "digest": {"sha256": digest(compiler)},
            "annotations": {"version": run("swift", "--version").splitlines()[0]}}


def debian_packages():
    form = "${db:Status-Status} ${Package} ${Version} ${Architecture}\n"
    found = subprocess.run(["dpkg-query", "-W", "-f", form, *BUILD_PACKAGES], capture_output=True, text=True).stdout
    for line in sorted(found.splitlines()):
        status, name, version, architecture = line.split()
        if status == "installed":
            yield {"name": name, "uri": f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"}


def main():
    parser = argparse.ArgumentParser()
    for name in ("folder", "version", "commit", "epoch", "resolved", "started", "builds"):
        parser.add_argument("--" + name, required=True)
    for name in ("repository", "builder"):
        parser.add_argument("--" + name, default="")
    arguments = parser.parse_args()
    with open("/etc/debian_version", encoding="utf-8") as file:
        debian = file.read().strip()
    builder = {"version": {"debian": debian, "architecture": run("dpkg", "--print-architecture")}}
    if arguments.builder:
        builder["id"] = arguments.builder
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects(arguments.folder),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "deploy/release", "version": arguments.version},
                "internalParameters": {"SOURCE_DATE_EPOCH": int(arguments.epoch), "comparedBuilds": int(arguments.builds)},
                "resolvedDependencies": [source(arguments), *swift_packages(arguments.resolved), toolchain(), *debian_packages()],
            },
            "runDetails": {
                "builder": builder,
                "metadata": {
                    "startedOn": moment(int(arguments.started)),
                    "finishedOn": moment(int(datetime.datetime.now().timestamp())),
                },
            },
        },
    }
    json.dump(statement, sys.stdout, indent=2)
    print()


main()
