import Glibc
import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSettings
import TestSupport
import Testing

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
        told.expect(["first.token", "second.token", "fault", "fault"])
        try folder.write("token", "second.token")
        told.expect(["first.token", "second.token", "fault", "fault", "second.token"])
        identity.stop()
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
