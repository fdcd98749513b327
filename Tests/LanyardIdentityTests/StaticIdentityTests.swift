import Glibc
import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSettings
import TestSupport
import Testing

@Suite("Tokens and credentials in files")
struct StaticIdentityTests {
    private final class Told: Sendable {
        let message = Guarded<[String]>([])
        func add(_ word: String) { message.withLock { $0.append(word) } }
        func expect(_ expected: [String]) async throws {
            try await eventually("\(expected) is told") { message.withLock { $0 } == expected }
        }
    }

    @Test("the token of a file, each new one, and what makes it unusable are told in order")
    func feed() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("token", "first.token\n")
        let loop = try EventLoop(label: "test.static")
        loop.start()
        defer { loop.stop() }
        let identity = StaticIdentity(name: "fixed", tokenFile: path, on: loop)
        let told = Told()
        identity.start { outcome in
            switch outcome {
            case .success(let secret): told.add(Tokens.text(secret) ?? "")
            case .failure(let error):
                #expect(error.verdict == .credentialUnavailable && error.message.contains(path))
                #expect(!error.message.contains("canary"))
                told.add("fault")
            }
        }
        try await told.expect(["first.token"])
        try folder.write("token", "second.token")
        try await told.expect(["first.token", "second.token"])
        try folder.write("token", "canary with spaces")
        try await told.expect(["first.token", "second.token", "fault"])
        unlink(path)
        try await told.expect(["first.token", "second.token", "fault", "fault"])
        try folder.write("token", "second.token")
        try await told.expect(["first.token", "second.token", "fault", "fault", "second.token"])
        identity.stop()
    }

    @Test("a missing token file is told at the start")
    func missing() async throws {
        let folder = try TemporaryFolder()
        let loop = try EventLoop(label: "test.static")
        loop.start()
        defer { loop.stop() }
        let identity = StaticIdentity(name: "fixed", tokenFile: folder.file("none"), on: loop)
        let told = Told()
        identity.start { told.add($0.failure?.message ?? "a token") }
        try await told.expect(["\(folder.file("none")) does not exist; create it, it is read again by itself"])
        identity.stop()
    }

    @Test("a credential file's change is told, its state at the start is not")
    func credential() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("password")
        let loop = try EventLoop(label: "test.static")
        loop.start()
        defer { loop.stop() }
        let files = FileReader()
        let watch = CredentialFileWatch(by: files, on: loop)
        let told = Told()
        watch.start(.emailPassword(email: "a@example.com", password: path)) { told.add("changed") }
        // What is asked for behind the watch is answered behind it.
        await withCheckedContinuation { done in loop.post { loop.post { done.resume() } } }
        await withCheckedContinuation { done in files.read(at: path, on: loop) { _ in done.resume() } }
        #expect(told.message.withLock { $0 }.isEmpty)
        try folder.write("password", "one")
        try await told.expect(["changed"])
        try folder.write("password", "two")
        try await told.expect(["changed", "changed"])
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
