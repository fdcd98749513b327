import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// What the scripts of the Debian package take for a store, before they make or remove its key.
@Suite struct PackagedStoresTests {
    /// A root of a package: `DPKG_ROOT` of its scripts.
    private struct Root {
        let folder: TemporaryFolder

        init(hasProgram: Bool = true) throws {
            folder = try TemporaryFolder()
            for path in ["etc/lanyard", "usr/bin", "etc/systemd/system/lanyard.service.d"] {
                try FileManager.default.createDirectory(
                    atPath: folder.file(path), withIntermediateDirectories: true)
            }
            try folder.write("etc/lanyard/store.key", "the word store is in a key, too")
            if hasProgram {
                try FileManager.default.createSymbolicLink(
                    atPath: folder.file("usr/bin/lanyard"), withDestinationPath: try Products.path("lanyard"))
            }
        }

        /// The lines of the scripts' function.
        func stores() async throws -> [String] {
            let process = try ServerProcess(
                "/bin/sh", ["-e", "-c", ". \(Products.root)/deploy/packaging/lanyard.stores.sh; named_stores"],
                environment: ["DPKG_ROOT": folder.path])
            #expect(try await process.waitForExit() == .code(0))
            #expect(process.lines.isEmpty, "\(process.lines)")
            return process.output.split(separator: "\n").map(String.init)
        }

        /// How the writing of the note ends.
        func note(at path: String) async throws -> ServerProcess.Exit {
            let process = try ServerProcess(
                "/bin/sh", ["-c", ". \(Products.root)/deploy/packaging/lanyard.stores.sh; note_stores \(path)"],
                environment: ["DPKG_ROOT": folder.path])
            return try await process.waitForExit()
        }

        /// Purges the package of this root. Its script knows the machine's folders only, so it gets those of this root.
        ///
        /// - Returns: the lines of standard error.
        func purge() async throws -> [String] {
            var script = try String(
                contentsOfFile: "\(Products.root)/deploy/packaging/lanyard.postrm", encoding: .utf8)
            for path in ["/etc/lanyard", "/var/lib/lanyard", "/run/lanyard", "/run/systemd"] {
                script = script.replacing(path, with: folder.file(String(path.dropFirst())))
            }
            try FileManager.default.createDirectory(atPath: folder.file("bin"), withIntermediateDirectories: true)
            for name in ["deluser", "getent", "systemctl"] {
                let path = try folder.write("bin/\(name)", "#!/bin/sh\nexit 1\n")
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
            }
            let process = try ServerProcess(
                "/bin/sh", [try folder.write("postrm", script), "purge"],
                environment: ["PATH": "\(folder.file("bin")):/usr/bin:/bin"])
            #expect(try await process.waitForExit() == .code(0))
            return process.lines.map(\.text)
        }
    }

    @Test(
        "a store elsewhere is named in each spelling that Lanyard reads",
        arguments: [
            "store: {path: /srv/l/store, key_file: k}\n",
            "\"store\": {path: /srv/l/store}\n",
            "store: {\"path\": /srv/l/store}\n",
            "{\"log\": {}, \"store\": {\"path\": \"/srv/l/store\"}}\n",
            "store:\n  path: >-\n    /srv/l/store\n",
            "store:\n  path:\n    /srv/l/store\n",
            "store :\n  path : /srv/l/store # moved\n",
            "? store\n: path: /srv/l/store\n",
            "\"st\\x6fre\": {\"p\\u0061th\": \"\\x2fsrv/l/store\"}\n",
        ])
    func spellings(_ text: String) async throws {
        let root = try Root()
        try root.folder.write("etc/lanyard/lanyard.yaml", text)
        #expect(try await root.stores() == ["store /srv/l/store"])
    }

    @Test(
        "each configuration counts, whatever its name and folder; a path that leaves the package's folder is elsewhere")
    func configurations() async throws {
        let root = try Root()
        try FileManager.default.createDirectory(
            atPath: root.folder.file("etc/lanyard/more"), withIntermediateDirectories: true)
        try root.folder.write("etc/lanyard/lanyard.yaml", "store: {path: /var/lib/lanyard/sessions}\n")
        try root.folder.write("etc/lanyard/more/proxy", "store: {path: relative, memory: true}\nbogus: 1\n")
        try root.folder.write("etc/lanyard/x.yml", "store: {path: /var/lib/lanyard/../../x}\n")
        try root.folder.write("etc/lanyard/y.json", "{\"store\": {\"memory\": true}}\n")
        try root.folder.write("etc/lanyard/alice.password", "hunter2\n")
        try root.folder.write("elsewhere.yaml", "\"store\": {path: '/srv/my store'}\n")
        try FileManager.default.createSymbolicLink(
            atPath: root.folder.file("etc/lanyard/z.yaml"), withDestinationPath: root.folder.file("elsewhere.yaml"))
        let lines = try await root.stores()
        #expect(
            lines == [
                "store \(root.folder.file("etc/lanyard/more/relative"))", "store /var/lib/lanyard/../../x",
                "store /srv/my store",
            ])
    }

    @Test(
        "what the program cannot read is in doubt, and only that",
        arguments: [
            ("etc/lanyard/lanyard.yaml", "store: {path: /srv/l/store\n", true),
            ("etc/lanyard/lanyard.yaml", "store: {path: &here /srv/l/store}\n", true),
            ("etc/lanyard/lanyard.yaml", "store: {path: \"/srv/l\\nstore\"}\n", true),
            ("etc/lanyard/proxy", "store: {path: /srv/l/store\n", true),
            ("etc/lanyard/alice.password", "hunter2\n", false),
            ("etc/systemd/system/lanyard.service.d/a.conf", "[Service]\nEnvironment=LANYARD_STORE_PATH=/srv/l\n", true),
            ("etc/systemd/system/lanyard.service.d/a.conf", "[Service]\nEnvironmentFile=/etc/x\n", true),
            (
                "etc/systemd/system/lanyard.service.d/a.conf",
                "[Service]\nEnvironment=\"LANYARD\\x5fSTORE_PATH=/srv/l\"\n", true
            ),
            ("etc/systemd/system/lanyard.service.d/a.conf", "[Service]\nExecStart=\nExecStart=/bin/x\n", true),
            (
                "etc/systemd/system/lanyard.service.d/a.conf",
                "[Service]\nMemoryMax=1G\nEnvironment=MALLOC_ARENA_MAX=2\nLoadCredential=store.key:/etc/lanyard/store.key\n",
                false
            ),
            (
                "etc/systemd/system/lanyard.service", "[Service]\nExecStart=/usr/bin/lanyard run --store-path /srv/l\n",
                true
            ),
            ("etc/systemd/system/other.service", "[Service]\nExecStart=/usr/bin/other\n", false),
            ("etc/default/lanyard", "LANYARD_STORE_PATH=/srv/l\n", true),
            ("etc/systemd/system.conf", "[Manager]\nDefaultEnvironment=LANYARD_STORE_PATH=/srv/l\n", true),
        ])
    func doubts(_ path: String, _ text: String, _ isInDoubt: Bool) async throws {
        let root = try Root()
        try FileManager.default.createDirectory(
            atPath: root.folder.file("etc/default"), withIntermediateDirectories: true)
        try root.folder.write(path, text)
        #expect(try await root.stores() == (isInDoubt ? ["unread \(root.folder.file(path))"] : []))
    }

    @Test("the note for a purge ends with a line that says so; one that a full disk cuts short fails")
    func note() async throws {
        let root = try Root()
        try root.folder.write("etc/lanyard/lanyard.yaml", "store: {path: /srv/l/store}\n")
        let note = root.folder.file("note")
        #expect(try await root.note(at: note) == .code(0))
        #expect(try String(contentsOfFile: note, encoding: .utf8) == "store /srv/l/store\nend\n")
        #expect(try await root.note(at: "/dev/full") != .code(0))
    }

    @Test(
        "a purge keeps the key if the note of the removal has no end",
        arguments: [
            ("end\n", false), ("", true), ("store /srv/l/sto", true), ("store /srv/l/store\n", true),
            ("\nend\n", false),
        ])
    func purge(_ note: String, _ keepsKey: Bool) async throws {
        let root = try Root()
        try root.folder.write("etc/lanyard/store.paths", note)
        let errors = try await root.purge()
        let key = root.folder.file("etc/lanyard/store.key")
        #expect(FileManager.default.fileExists(atPath: key) == keepsKey, "\(errors)")
        #expect(errors.contains("  \(root.folder.file("etc/lanyard/store.paths")), which has no end") == keepsKey)
        #expect(!FileManager.default.fileExists(atPath: root.folder.file("etc/lanyard/store.paths")))
    }

    @Test("without the program each configuration is in doubt")
    func withoutProgram() async throws {
        let root = try Root(hasProgram: false)
        try root.folder.write("etc/lanyard/lanyard.yaml", "store: {memory: true}\n")
        #expect(try await root.stores() == ["unread \(root.folder.file("etc/lanyard/lanyard.yaml"))"])
    }

    @Test(
        "--print-store-path prints only that: nothing without a store, 78 where one may be hidden, 64 beside other flags"
    )
    func command() async throws {
        let folder = try TemporaryFolder()
        let run = { (text: String, more: [String]) in
            try await CommandRun(
                ["check", "--print-store-path", "--config", try folder.write("a.yaml", text)] + more,
                environment: ["LANYARD_LOG_LEVEL": "nonsense"])
        }
        let found = try await run("{\"store\": {\"path\": \"s\"}}", [])
        #expect(found.exit == .code(0) && found.output == folder.file("s") + "\n" && found.errors.isEmpty)
        let none = try await run("bogus: 1\n", ["--store-path", "/srv/f"])
        #expect(none.exit == .code(0) && none.output == "/srv/f\n")
        let memory = try await run("log: {level: nonsense}\n", [])
        #expect(memory.exit == .code(0) && memory.output.isEmpty && memory.errors.isEmpty)
        let hidden = try await run("store: [\n", [])
        #expect(hidden.exit == .code(78) && hidden.output.isEmpty && !hidden.errors.isEmpty)
        let both = try await run("log: {}\n", ["--strict"])
        #expect(both.exit == .code(64))
    }
}
