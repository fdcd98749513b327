import Glibc
import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardIdentity

@Suite("Tokens and credentials in files")
struct StaticIdentityTests {
    /// What is told on a loop whose time the test passes.
    private final class Told: Sendable {
        let loop: EventLoop
        private let message = Guarded<[String]>([])

        init() throws {
            loop = try EventLoop(label: "test.static")
            loop.start()
            loop.freezeTime()
        }

        deinit { loop.stop() }

        func add(_ word: String) { message.withLock { $0.append(word) } }

        var words: [String] { message.withLock { $0 } }

        /// Passes an interval of the watches and what a change takes to settle.
        func expect(_ expected: [String], sourceLocation: SourceLocation = #_sourceLocation) {
            loop.pass(FileWatch.interval + FileSettling.settlingDelay)
            #expect(message.withLock { $0 } == expected, sourceLocation: sourceLocation)
        }
    }

    @Test("the token of a file, each new one, and what makes it unusable are told in order")
    func feed() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("token", "first.token\n")
        let told = try Told()
        let identity = StaticIdentity(name: "fixed", tokenFile: path, on: told.loop)
        identity.start { outcome in
            switch outcome {
            case .success(let secret): told.add(Tokens.text(secret) ?? "")
            case .failure(let error):
                #expect(error.verdict == .credentialUnavailable && error.message.contains(path))
                #expect(!error.message.contains("canary"))
                told.add("fault")
            }
        }
        told.expect(["first.token"])
        try folder.write("token", "second.token")
        told.expect(["first.token", "second.token"])
        try folder.write("token", "canary with spaces")
        told.expect(["first.token", "second.token", "fault"])
        unlink(path)
        // Nothing is left that could serve.
        told.expect(["first.token", "second.token", "fault", "fault"])
        try folder.write("token", "second.token")
        told.expect(["first.token", "second.token", "fault", "fault", "second.token"])
        identity.stop()
    }

    @Test(
        "each word of visible ASCII is a token as it is, with what Laravel Sanctum and API keys have in them",
        arguments: ["1|abcDEF", "key:value,other", "a=b", "~!@#$%^&*()[]{};'<>?", "\"quoted\"", #"{"a":"b"}"#, "x"])
    func visible(_ token: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("token", "\u{FEFF} \(token)\r\n")
        let told = try Told()
        let identity = StaticIdentity(name: "fixed", tokenFile: path, on: told.loop)
        identity.start { told.add((try? $0.get()).flatMap { Tokens.text($0) } ?? "fault") }
        told.expect([token])
        identity.stop()
    }

    @Test(
        "what no field can carry is refused, by run and by check alike",
        arguments: [
            "two words", "line\nline", "caf\u{e9}", "a\u{7f}b", "a\u{0}b", String(repeating: "a", count: 32_769),
        ])
    func invisible(_ token: String) throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("token", token)
        let told = try Told()
        let identity = StaticIdentity(name: "fixed", tokenFile: path, on: told.loop)
        identity.start { told.add($0.failure?.message ?? "a token") }
        let content = try SecretFile.read(path, bytesMax: SecretFile.credentialBytesMax).secret
        let error = #expect(throws: SecretFile.ReadError.self) { try FieldValueSecret.value(of: content) }
        told.expect([error?.message(path: path) ?? ""])
        identity.stop()
    }

    @Test("a token that names its own end is named by check, with whether it has passed")
    func end() throws {
        let folder = try TemporaryFolder()
        let identity = { (path: String) in IdentitySettings(name: "fixed", kind: .staticToken(file: path)) }
        let token = Tokens.jwt(#"{"exp":1800000000}"#)
        for (now, words) in [(1_799_999_999, "which is still to come"), (1_800_000_000, "which has passed")] {
            let path = try folder.write("token", token + "\n")
            let finding = StaticTokenEnd.finding(identity(path), at: WallTime(seconds: Int64(now)))
            #expect(finding?.path == path && finding?.text.contains("2027-01-15T08:00:00.000Z, \(words);") == true)
            #expect(finding?.text.contains(token) == false)
        }
        for (name, text) in [
            ("opaque", "abc"), ("empty", ""), ("endless", Tokens.jwt("{}")), ("text", Tokens.jwt(#"{"exp":"x"}"#)),
            ("two", token + "\n" + token),
        ] {
            let path = try folder.write(name, text)
            #expect(StaticTokenEnd.finding(identity(path)) == nil, "\(name)")
        }
        #expect(StaticTokenEnd.finding(identity(folder.path + "/missing")) == nil)
    }

    @Test("the value of a field is one line of visible ASCII and blanks, for run and check alike")
    func line() throws {
        for (text, expected) in [("a b", "a b"), (" a|b\r\n", "a|b"), ("\u{FEFF}Basic x", "Basic x")] {
            #expect(Tokens.text(try FieldValueSecret.value(of: Tokens.secret(text), as: .line)) == expected)
        }
        for (text, words) in [
            ("a\nb", "has more than one line"), ("a\rb", "has more than one line"),
            ("a\u{0}b", "has a NUL byte at byte 1"),
            ("a\tb", "has a control character at byte 1"), ("a\u{7f}b", "has a control character at byte 1"),
            ("a\u{e9}", "has a character at byte 1 that is not ASCII"),
        ] {
            let error = #expect(throws: SecretFile.ReadError.self) {
                try FieldValueSecret.value(of: Tokens.secret(text), as: .line)
            }
            #expect(error?.message(path: "/f").contains("/f \(words): it does not hold the value of a field") == true)
        }
        #expect(throws: SecretFile.ReadError.empty) { try FieldValueSecret.value(of: Tokens.secret(" \n"), as: .line) }
        let longest = String(repeating: "a ", count: FieldValueSecret.bytesMax / 2 - 1) + "aa"
        #expect(Tokens.text(try FieldValueSecret.value(of: Tokens.secret(longest), as: .line)) == longest)
        let error = #expect(throws: SecretFile.ReadError.self) {
            try FieldValueSecret.value(of: Tokens.secret(longest + "a"), as: .line)
        }
        #expect(error?.message(path: "/f").hasPrefix("/f is larger than 32 KiB; the value of a field") == true)
    }

    // MARK: A file in transition

    /// What is told while a served file changes: the token, `kept` while the former one serves, `refused`.
    private struct Bench {
        let folder: TemporaryFolder
        let path: String
        let told: Told
        let identity: StaticIdentity

        init(_ token: String = "first.token") throws {
            folder = try TemporaryFolder()
            path = try folder.write("token", token)
            let told = try Told()
            self.told = told
            identity = StaticIdentity(name: "fixed", tokenFile: path, on: told.loop)
            identity.start { outcome in
                switch outcome {
                case .success(let secret): told.add(Tokens.text(secret) ?? "")
                case .failure(let error): told.add(error.verdict == .credentialDelayed ? "kept" : "refused")
                }
            }
            told.expect([token])
        }

        /// Everything that is told after the first token.
        func expect(_ words: [String], _ first: String = "first.token", _ place: SourceLocation = #_sourceLocation) {
            told.expect([first] + words, sourceLocation: place)
        }
    }

    @Test(
        "a file that is empty, blank, missing or cut serves its former content for 10 s, then it is refused",
        arguments: ["", "\n", "  \r\n", "first.tok", nil])
    func transition(_ content: String?) throws {
        let bench = try Bench()
        if let content { try bench.folder.write("token", content) } else { unlink(bench.path) }
        bench.expect(["kept"])
        bench.told.loop.pass(TokenTransition.durationMax - .milliseconds(1) - FileWatch.interval)
        bench.told.loop.pass(FileWatch.interval - FileSettling.settlingDelay - .seconds(2))
        bench.expect(["kept", "refused"])
        try bench.folder.write("token", "second.token")
        bench.expect(["kept", "refused", "second.token"])
        bench.identity.stop()
    }

    @Test("a file that is written in time leads to no refusal, and a second change of the file prolongs nothing")
    func slowWriter() throws {
        let bench = try Bench()
        try bench.folder.write("token", "")
        bench.expect(["kept"])
        unlink(bench.path)
        bench.expect(["kept"])
        try bench.folder.write("token", "first")
        bench.expect(["kept"])
        try bench.folder.write("token", "second.token")
        bench.expect(["kept", "second.token"])
        bench.told.loop.pass(.seconds(60))
        bench.expect(["kept", "second.token"])
        try bench.folder.write("token", "")
        bench.expect(["kept", "second.token", "kept"])
        for _ in 0..<4 {
            unlink(bench.path)
            bench.told.loop.pass(.milliseconds(1300))
            try bench.folder.write("token", "")
            bench.told.loop.pass(.milliseconds(1300))
        }
        bench.told.loop.pass(.milliseconds(200))
        // What is wrong then may still change.
        #expect(bench.told.words.prefix(5) == ["first.token", "kept", "second.token", "kept", "refused"])
        bench.identity.stop()
    }

    @Test("half of a JWT in place of a whole one is cut; another kind of token is a token")
    func jwt() throws {
        let jwt = "eyJhbGciOiJub25lIn0.eyJhIjoxfQ.c2ln"
        for cut in [
            "eyJ", "eyJh", "eyJhb", "eyJhbGci", "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.",
            "eyJhbGciOiJIUzI1NiJ9.eyJhIjoyfQ", "eyJhbGciOiJIUzI1NiJ9.eyJhIjoyfQ.", "eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy",
            "eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.",
            // A key that is JSON in Base64, and is cut itself.
            "eyJrIjoi",
        ] {
            let bench = try Bench(jwt)
            try bench.folder.write("token", cut)
            bench.expect(["kept"], jwt)
            bench.identity.stop()
        }
        for token in [
            "1|opaque",
            // Encrypted (RFC 7516), and unsecured (RFC 7519 section 6).
            "eyJhbGciOiJkaXIifQ..aXY.Y2lwaGVy.dGFn", "eyJhbGciOiJSU0EifQ.a2V5.aXY.Y2lwaGVy.dGFn",
            "eyJhbGciOiJub25lIn0.eyJhIjoyfQ.",
            // Keys that are JSON in Base64: {"k":"v"}, with padding {"k":"vw"}, {"iv":"a","value":"b"}.
            "eyJrIjoidiJ9", "eyJrIjoidncifQ==", "eyJpdiI6ImEiLCJ2YWx1ZSI6ImIifQ",
            // Signed data of web frameworks: its first part is JSON, and no header of a JWT.
            "eyJrIjoidiJ9.c2ln", "eyJrIjoidiJ9.dGltZQ.c2ln", "eyJrIjoidiJ9:1a2b:c2ln", "eyJrIjoidiJ9.",
            // No Base64 of JSON at all.
            "eyJ-opaque-key", "eyJhbGci.x",
        ] {
            let bench = try Bench(jwt)
            try bench.folder.write("token", token)
            bench.expect([token], jwt)
            bench.identity.stop()
        }
    }

    @Test("a file of another mode is refused at once when it is empty, and so is what is no token")
    func otherWriter() throws {
        let bench = try Bench()
        try bench.folder.write("token", "", mode: 0o640)
        bench.expect(["refused"])
        try bench.folder.write("token", "third.token")
        bench.expect(["refused", "third.token"])
        try bench.folder.write("token", "two words")
        bench.expect(["refused", "third.token", "refused"])
        unlink(bench.path)
        try #require(mkdir(bench.path, 0o700) == 0)
        bench.expect(["refused", "third.token", "refused", "refused"])
        bench.identity.stop()
    }

    @Test("a cut file that was refused serves after it was emptied: it was the whole token")
    func shorter() throws {
        let bench = try Bench()
        try bench.folder.write("token", "first")
        bench.expect(["kept"])
        bench.told.loop.pass(TokenTransition.durationMax)
        bench.expect(["kept", "refused"])
        try bench.folder.write("token", "")
        bench.expect(["kept", "refused", "refused"])
        try bench.folder.write("token", "first")
        bench.expect(["kept", "refused", "refused", "first"])
        bench.identity.stop()
    }

    @Test("a missing token file is told at the start")
    func missing() throws {
        let folder = try TemporaryFolder()
        let told = try Told()
        let identity = StaticIdentity(name: "fixed", tokenFile: folder.file("none"), on: told.loop)
        identity.start { told.add($0.failure?.message ?? "a token") }
        told.expect(["\(folder.file("none")) does not exist; create it, it is read again by itself"])
        identity.stop()
    }

    @Test("a credential file's change is told, its state at the start is not")
    func credential() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("password")
        let told = try Told()
        let watch = CredentialFileWatch(on: told.loop)
        watch.start(.emailPassword(email: "a@example.com", password: path)) { told.add("changed") }
        told.expect([])
        try folder.write("password", "one")
        told.expect(["changed"])
        try folder.write("password", "two")
        told.expect(["changed", "changed"])
        watch.stop()
    }

    @Test("an anonymous login has no file to watch")
    func anonymous() throws {
        let loop = try EventLoop(label: "test.static")
        loop.start()
        let watch = CredentialFileWatch(on: loop)
        watch.start(.anonymous) { Issue.record("nothing can change") }
        watch.stop()
        loop.stop()
    }
}
