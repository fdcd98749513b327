#!/usr/bin/env python3
"""Writes the software bill of materials of a program, in two forms: CycloneDX 1.5 and SPDX 2.3, both JSON.

    deploy/packaging/sbom.py --program PATH --version VERSION --commit NAME --swift VERSION --resolved Package.resolved
                             --packages NAME,... --late SONAME,... --optional SONAME=PACKAGE,... --epoch SECONDS [--license SPDX-ID]
                             --cyclonedx FILE --spdx FILE

Components: what is linked into the program (the Swift runtime, the named Swift packages with version and revision), and each library of the
machine that it loads, by Debian package and version, as they were at the build. Some are needed by the program (`dynamic`), some are loaded
at their first use (`late`), some by another library (`indirect`), and some only if they are installed (`optional`). The same arguments and
program give the same bytes.
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import subprocess
import uuid
from urllib.parse import quote

LICENSES = {
    "swift-runtime": "Apache-2.0 WITH Swift-exception",
    "swift-argument-parser": "Apache-2.0 WITH Swift-exception",
    "swift-log": "Apache-2.0",
    "flyingfox": "MIT",
    "libcurl": "curl",
    "OpenSSL": "Apache-2.0",
    "libyaml": "MIT",
    "nghttp2": "MIT",
}
# Packages that deploy/package changes: the file that replaces one of theirs.
PATCHED = {"swift-argument-parser": "deploy/packaging/ArgumentParserFoundation.swift"}
# Names of the projects behind sonames. All others are named by their Debian package.
PROJECTS = {"libcurl": "libcurl", "libnghttp2": "nghttp2", "libssl": "OpenSSL", "libcrypto": "OpenSSL", "libyaml-0": "libyaml"}
# How the relation of a component is written in SPDX.
RELATIONS = {"static": "STATIC_LINK", "dynamic": "DYNAMIC_LINK", "late": "DYNAMIC_LINK", "optional": "OPTIONAL_DEPENDENCY_OF"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(path):
    """The sonames that a program or library needs."""
    lines = run("readelf", "-d", "-W", path).split("\n")
    return sorted(line.split("[")[1].split("]")[0] for line in lines if "(NEEDED)" in line)


def loaded(path):
    """Paths of all libraries that come with a program or library, by soname."""
    pairs = (line.split() for line in run("ldd", path).split("\n"))
    paths = {words[0]: words[2] for words in pairs if len(words) > 2 and words[1] == "=>" and words[2].startswith("/")}
    # The loader stands in a line of its own.
    for words in (line.split() for line in run("ldd", path).split("\n")):
        if words and words[0].startswith("/"):
            paths[os.path.basename(words[0])] = words[0]
    return paths


def cached(soname):
    """The path of a library that is loaded by its name."""
    for line in run("/sbin/ldconfig", "-p").split("\n"):
        words = line.split()
        if "=>" in words and words[0] == soname:
            return words[-1]
    raise SystemExit(f"{soname} is not installed")


def debian_package(path):
    """(name, version, architecture) of the Debian package that has the file."""
    real = os.path.realpath(path)
    for candidate in (path, real, path.removeprefix("/usr"), real.removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True).stdout
        if found:
            package = found.split(": ")[0].split(",")[0]
            return tuple(run("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}", package).split())
    raise SystemExit(f"{path} belongs to no Debian package")


def swift_components(arguments):
    components = [{
        "ref": "swift-runtime", "name": "swift-runtime", "version": arguments.swift, "linkage": "static",
        "purl": f"pkg:github/swiftlang/swift@swift-{arguments.swift}-RELEASE", "license": LICENSES["swift-runtime"],
        "source": "https://github.com/swiftlang/swift",
    }]
    with open(arguments.resolved, encoding="utf-8") as file:
        pins = {pin["identity"]: pin for pin in json.load(file)["pins"]}
    for name in sorted(filter(None, arguments.packages.split(","))):
        pin = pins[name]
        location = pin["location"].removesuffix(".git")
        version = pin["state"].get("version", pin["state"]["revision"])
        components.append({
            "ref": name, "name": location.rsplit("/", 1)[1], "version": version, "linkage": "static",
            "purl": f"pkg:swift/{location.removeprefix('https://')}@{version}", "license": LICENSES[name],
            "source": location, "revision": pin["state"]["revision"], "patch": PATCHED.get(name),
        })
    return components


def library_components(program, late, optional):
    """One component for each Debian package, with the sonames that are loaded of it, and the packages that it loads itself."""
    paths = loaded(program)
    for soname in late:
        paths[soname] = cached(soname)
        paths |= {name: path for name, path in loaded(paths[soname]).items() if name not in paths}
    owners = {soname: debian_package(path) for soname, path in paths.items()}
    direct = set(needed(program))
    components = {}
    for soname in sorted(paths):
        name, version, architecture = owners[soname]
        each = components.setdefault(name, {
            "ref": f"deb:{name}", "name": name, "version": version, "linkage": "indirect", "sonames": [], "loads": set(),
            "purl": f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}",
        })
        each["sonames"].append(soname)
        each["loads"] |= {f"deb:{owners[other][0]}" for other in needed(paths[soname]) if other in owners} - {each["ref"]}
        if soname in direct:
            each["linkage"] = "dynamic"
        elif soname in late and each["linkage"] == "indirect":
            each["linkage"] = "late"
        project = PROJECTS.get(soname.split(".so")[0])
        if project:
            each["name"], each["license"] = project, LICENSES[project]
    for soname, package in optional:
        components.setdefault(package, {
            "ref": f"deb:{package}", "name": package, "linkage": "optional", "sonames": [soname], "loads": set(),
            "purl": f"pkg:deb/debian/{package}",
        })
    return [components[name] for name in sorted(components)]


def cyclonedx_license(text):
    return [{"expression": text}] if " " in text else [{"license": {"id": text}}]


def cyclonedx_component(each):
    component = {"type": "library", "bom-ref": each["ref"], "name": each["name"]}
    if "version" in each:
        component["version"] = each["version"]
    component["purl"] = each["purl"]
    if each["linkage"] == "optional":
        component["scope"] = "optional"
    if "license" in each:
        component["licenses"] = cyclonedx_license(each["license"])
    if "source" in each:
        component["externalReferences"] = [{"type": "vcs", "url": each["source"]}]
    properties = [("linkage", each["linkage"])] + [("soname", soname) for soname in each.get("sonames", [])]
    if "revision" in each:
        properties.append(("revision", each["revision"]))
    component["properties"] = [{"name": f"lanyard:{name}", "value": value} for name, value in properties]
    if each.get("patch"):
        component["pedigree"] = {"patches": [{"type": "unofficial", "diff": {"url": each["patch"]}}]}
    return component


def cyclonedx(subject, components):
    application = {
        "type": "application", "bom-ref": subject["name"], "name": subject["name"], "version": subject["version"],
        "hashes": [{"alg": "SHA-256", "content": subject["digest"]}],
        "properties": [{"name": "lanyard:commit", "value": subject["commit"]}],
    }
    if subject["license"]:
        application["licenses"] = cyclonedx_license(subject["license"])
    direct = [each["ref"] for each in components if each["linkage"] != "indirect"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{subject['uuid']}",
        "version": 1,
        "metadata": {"timestamp": subject["time"], "component": application},
        "components": [cyclonedx_component(each) for each in components],
        "dependencies": [{"ref": subject["name"], "dependsOn": direct}]
        + [{"ref": each["ref"], "dependsOn": sorted(each["loads"])} for each in components if each.get("loads")],
    }


def spdx_id(text):
    """Letters, digits, dots and hyphens; two names never have one id."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", lambda sign: f"-{ord(sign[0]):x}-", text)


def spdx_package(each):
    package = {"SPDXID": spdx_id(each["ref"]), "name": each["name"]}
    if "version" in each:
        package["versionInfo"] = each["version"]
    package |= {
        "downloadLocation": f"git+{each['source']}@{each['revision']}" if "revision" in each else "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": each.get("license") or "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
    if "purl" in each:
        package["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": each["purl"]}]
    notes = [f"linkage: {each['linkage']}"] if "linkage" in each else []
    notes += [f"sonames: {' '.join(each['sonames'])}"] if "sonames" in each else []
    notes += [f"one file is replaced by {each['patch']}"] if each.get("patch") else []
    if notes:
        package["comment"] = "; ".join(notes)
    return package


def spdx(subject, components):
    name = subject["name"]
    application = spdx_package({"ref": name, "name": name, "version": subject["version"], "license": subject["license"]})
    application |= {
        "primaryPackagePurpose": "APPLICATION", "comment": f"commit: {subject['commit']}",
        "checksums": [{"algorithm": "SHA256", "checksumValue": subject["digest"]}],
    }
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", spdx_id(name))]
    for each in components:
        if each["linkage"] == "optional":
            relations.append((spdx_id(each["ref"]), RELATIONS["optional"], spdx_id(name)))
        elif each["linkage"] != "indirect":
            relations.append((spdx_id(name), RELATIONS[each["linkage"]], spdx_id(each["ref"])))
        relations += [(spdx_id(each["ref"]), "DYNAMIC_LINK", spdx_id(other)) for other in sorted(each.get("loads", []))]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{subject['version']}",
        # A URI that names this document. Nothing is to be fetched by it.
        "documentNamespace": f"urn:uuid:{subject['uuid']}",
        "creationInfo": {"created": subject["time"], "creators": ["Tool: lanyard-deploy-packaging-sbom.py"]},
        "packages": [application] + [spdx_package(each) for each in components],
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations],
    }


def main():
    parser = argparse.ArgumentParser()
    for name in ("program", "version", "commit", "swift", "resolved", "packages", "late", "optional", "epoch", "cyclonedx", "spdx"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--license", default="")
    arguments = parser.parse_args()
    name = os.path.basename(arguments.program)
    with open(arguments.program, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    late = list(filter(None, arguments.late.split(",")))
    optional = [pair.split("=") for pair in arguments.optional.split(",") if pair]
    components = swift_components(arguments) + library_components(arguments.program, late, optional)
    moment = datetime.datetime.fromtimestamp(int(arguments.epoch), datetime.timezone.utc)
    subject = {
        "name": name, "version": arguments.version, "commit": arguments.commit, "digest": digest, "license": arguments.license,
        "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    for form, path, write in (("", arguments.cyclonedx, cyclonedx), (":spdx", arguments.spdx, spdx)):
        subject["uuid"] = uuid.uuid5(uuid.NAMESPACE_URL, f"lanyard:{name}:{arguments.version}:{digest}{form}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(write(subject, components), indent=2) + "\n")


main()
