import Glibc
import TestSupport
import Testing

@testable import LanyardConfiguration
@testable import LanyardSettings

/// `set_headers` whose values are in files.
@Suite struct FieldFileConfigurationTests {
    private let folder: TemporaryFolder

    init() throws {
        folder = try TemporaryFolder()
        try folder.write("token", "t")
    }

    /// - Parameters:
    ///   - fields: the value of `set_headers`.
    ///   - route: further keys of the route.
    private func load(_ fields: String, route: String = "", readsSecrets: Bool = true) throws -> LoadedConfiguration {
        let path = try folder.write(
            "lanyard.yaml",
            Loading.identities + Loading.users
                + "routes:\n- {upstream: \"http://127.0.0.1:9000\", set_headers: \(fields)\(route)}\n")
        return Configuration.load(arguments: ["--config", path], environment: [:], readsSecrets: readsSecrets)
    }

    private func diagnostics(_ fields: String, route: String = "", readsSecrets: Bool = true) throws -> [String] {
        try load(fields, route: route, readsSecrets: readsSecrets).diagnostics.map {
            ($0.severity == .error ? "\($0)" : "\($0.severity.rawValue): \($0)")
                .replacing(folder.path + "/", with: "")
        }
    }

    @Test("texts and files arrive in their order, and what is printed names the file and loads as the same")
    func printed() throws {
        try folder.write("key", "hunter2\n")
        let loaded = try load("{X-A: blue, X-Key: {file: key}, X-B: \"\"}")
        #expect(loaded.diagnostics == [])
        let fields = loaded.configuration?.routes[0].route.setHeaders
        #expect(
            fields == [
                .init(name: "X-A", value: "blue"), .init(name: "X-Key", file: folder.file("key")),
                .init(name: "X-B", value: ""),
            ])
        #expect(loaded.printed.contains(folder.file("key")), "\(loaded.printed)")
        #expect(!loaded.printed.contains("hunter2"))
        let again = Configuration.load(
            arguments: ["--config", try folder.write("again.yaml", loaded.printed)], environment: [:])
        #expect(again.configuration == loaded.configuration)
    }

    @Test(
        "a file that cannot be used is one warning of check, which never has a byte of it",
        arguments: [
            ("", "is empty; requests of the route are refused until the secret is written into it"),
            (" \n\n", "holds no secret, but a line end or blanks; write the secret into it"),
            ("hunter2\nhunter3", "has more than one line: it does not hold the value of a field"),
            ("hunter2\u{1}x", "has a control character at byte 7: it does not hold the value of a field"),
            ("hunter2\0x", "has a NUL byte at byte 7: it does not hold the value of a field"),
            ("caf\u{e9} hunter2", "has a character at byte 3 that is not ASCII: it does not hold"),
            (String(repeating: "hunter2", count: 5000), "is larger than 32 KiB; the value of a field has at most"),
            (String(repeating: "hunter2", count: 200_000), "cannot be used; it is larger than any secret"),
        ])
    func unusable(_ content: String, _ words: String) throws {
        try folder.write("key", content)
        let lines = try diagnostics("{X-Key: {file: key}}")
        #expect(lines.count == 1, "\(lines)")
        #expect(lines.first?.hasPrefix("warning: lanyard.yaml:7:") == true, "\(lines)")
        #expect(lines.first?.contains("routes[0].set_headers.X-Key.file: key \(words)") == true, "\(lines)")
        #expect(!lines.joined().contains("hunter"))
        // The start does not wait for secret files, and warns of an empty one alone.
        #expect(try diagnostics("{X-Key: {file: key}}", readsSecrets: false).count == (content.isEmpty ? 1 : 0))
    }

    @Test("a file that is missing, a folder or a pipe is a warning: requests of the route are refused until it is one")
    func states() throws {
        try #require(mkfifo(folder.file("pipe"), 0o600) == 0)
        for (name, words) in [
            ("none", "none does not exist; requests of the route are refused until the file appears"),
            (".", "is a folder; requests of the route are refused until it is a file"),
            ("pipe", "pipe is not a regular file; requests of the route are refused until it is one"),
        ] {
            let lines = try diagnostics("{X-Key: {file: \(name)}}")
            #expect(lines.count == 1 && lines.first?.contains(words) == true, "\(lines)")
            #expect(try load("{X-Key: {file: \(name)}}").configuration != nil)
        }
    }

    @Test("a file that others can read is a warning")
    func worldReadable() throws {
        try folder.write("key", "hunter2")
        try #require(chmod(folder.file("key"), 0o644) == 0)
        let lines = try diagnostics("{X-Key: {file: key}}")
        #expect(
            lines.count == 1 && lines.first?.contains("every Unix user of this machine can read") == true, "\(lines)")
    }

    @Test(
        "the faults of plain values are those of files, too",
        arguments: [
            ("{Host: {file: key}}", "", "set_headers: \"Host\" is not the name of a field that may be set"),
            ("{Connection: {file: key}}", "", "\"Connection\" is not the name of a field that may be set"),
            ("{Content_Length: {file: key}}", "", "\"Content_Length\" is not the name of a field that may be set"),
            ("{X-Key: {file: key}, x_key: a}", "", "set_headers: x_key and X-Key are one field; keep one of them"),
            ("{X-Key: a, x-key: {file: key}}", "", "set_headers: x-key and X-Key are one field; keep one of them"),
            ("{authorization: {file: key}}", "", "authorization is the field that carries the token; remove it"),
            (
                "{X-Key: {file: key}}", ", inject: {header: x_key}",
                "X-Key is the field that carries the token; remove it"
            ),
            ("{X-Key: {file: key}}", ", request_id_header: X-Key", "request_id_header: X-Key is set already, as X-Key"),
            ("{X-Key: {}}", "", "missing key \"routes[0].set_headers.X-Key.file\""),
            ("{X-Key: [a]}", "", "set_headers.X-Key: expected a single value or {file: PATH}, found a list"),
            ("{X-Key: {fil: key}}", "", "unknown key \"fil\" in routes[0].set_headers.X-Key; did you mean"),
            ("{X-Key: {file: \"\"}}", "", "routes[0].set_headers.X-Key.file"),
        ])
    func faults(_ fields: String, _ route: String, _ words: String) throws {
        try folder.write("key", "hunter2")
        let lines = try diagnostics(fields, route: route)
        #expect(lines.count == 1 && lines.first?.contains(words) == true, "\(lines)")
        #expect(try load(fields, route: route).configuration == nil)
    }

    @Test("another file, and a text in place of a file, are changes that a reload applies")
    func changes() throws {
        for name in ["key", "other"] { try folder.write(name, "hunter2") }
        let running = try load("{X-Key: {file: key}}")
        for fields in ["{X-Key: {file: other}}", "{X-Key: key}", "{X-Other: {file: key}}"] {
            let changes = ConfigurationChanges(from: running, to: try load(fields))
            #expect(changes.live == ["routes[0].set_headers"] && changes.restartOnly == [], "\(fields): \(changes)")
        }
    }
}
