import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// What `lanyard run` says of its store before anything else, as a user without rights of its own.
@Suite struct StoreStartTests {
    private let folder: TemporaryFolder
    /// Where the sealed file stands.
    private let storeFolder: String
    private let path: String

    init() throws {
        folder = try TemporaryFolder(shared: true)
        storeFolder = folder.file("store")
        path = storeFolder + "/sessions"
        guard mkdir(storeFolder, 0o700) == 0 else { throw TestFailure("mkdir \(storeFolder): errno \(errno)") }
        try folder.write("token", "t")
        try folder.write("key", String(repeating: "k", count: 32))
        try folder.write("other", String(repeating: "o", count: 32))
        try folder.write("phrase", "correct horse\n")
        try configure("{path: store/sessions, key_file: key}")
        if getuid() == 0 { try folder.give(to: 65534, group: 65534) }
    }

    @discardableResult
    private func configure(_ store: String) throws -> String {
        let path = try folder.write(
            "lanyard.yaml",
            """
            listeners: [{address: "127.0.0.1:0"}]
            health: {address: "127.0.0.1:0"}
            identities: {fixed: {static: {token_file: token}}}
            users: {alice: {identity: fixed}}
            routes: [{name: all, upstream: "http://127.0.0.1:9"}]
            store: \(store)

            """, mode: 0o644)
        return path
    }

    private func own(_ path: String) { if getuid() == 0 { chown(path, 65534, 65534) } }

    private func start(_ launcher: [String] = []) throws -> ServerProcess {
        let command = launcher + [try Products.path("lanyard"), "run", "--config", folder.file("lanyard.yaml")]
        return try ServerProcess(command[0], Array(command.dropFirst()), as: .nobody)
    }

    /// Starts, and ends by SIGTERM: there is a store then.
    private func make() async throws {
        let lanyard = try start()
        try await lanyard.event("store.created")
        try await lanyard.event("listening") { $0["listener"].string == "health" }
        #expect(try await lanyard.terminate() == .code(143))
    }

    private func bytes() throws -> Data { try Data(contentsOf: URL(filePath: path)) }

    /// The one line that a refused start leaves.
    private func refusal() async throws -> (words: String, reason: String) {
        let before = try? bytes()
        let lanyard = try start()
        #expect(try await lanyard.waitForExit() == .code(78))
        #expect((try? bytes()) == before)
        let line = try await lanyard.event("start.failed")
        #expect(!lanyard.lines.contains { $0.event == "listening" })
        return (line["msg"].string ?? "", line["reason"].string ?? "")
    }

    @Test("the first start makes the store, sealed and 0600, and the next one opens it; the check says stored")
    func firstStart() async throws {
        try await make()
        var status = stat()
        #expect(stat(path, &status) == 0 && status.st_mode & 0o7777 == 0o600)
        #expect(try bytes().starts(with: Data("LANYSTOR".utf8)))
        let lanyard = try start()
        #expect(try await lanyard.event("store.opened")["writes"].int == 1)
        let address = try await lanyard.event("listening") { $0["listener"].string == "health" }["address"].string
        let health = try RawEndpoint(address ?? "")
        let response = try await RawClient.ask(health, "GET", "/readyz")
        #expect(response.bodyText.contains(#"{"name":"store","ok":true,"reason":"stored"}"#))
        #expect(!lanyard.lines.contains { $0.event == "store.memory_only" || $0.event == "store.created" })
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("without a path sessions live in memory only, which the log says as a warning")
    func memory() async throws {
        try configure("{memory: true}")
        let lanyard = try start()
        #expect(try await lanyard.event("store.memory_only")["level"].string == "warning")
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("a wrong key, a passphrase in place of the key, damage, truncation and a later version: 78, each told apart")
    func unreadable() async throws {
        try await make()
        let whole = try bytes()
        try configure("{path: store/sessions, key_file: other}")
        var refused = try await refusal()
        #expect(refused.reason == "store_wrong_key" && refused.words.contains("\(path) is sealed with another key"))
        try configure("{path: store/sessions, passphrase_file: phrase}")
        refused = try await refusal()
        #expect(refused.reason == "store_wrong_key" && refused.words.contains("is sealed with a key"))
        try configure("{path: store/sessions, key_file: key}")
        var other = whole
        other[whole.count - 20] ^= 4
        try other.write(to: URL(filePath: path))
        refused = try await refusal()
        #expect(refused.reason == "store_damaged" && refused.words.contains("\(path) is damaged: it is not as"))
        try whole.prefix(100).write(to: URL(filePath: path))
        refused = try await refusal()
        #expect(refused.reason == "store_damaged" && refused.words.contains("it is truncated"))
        other = whole
        other[9] = 3
        try other.write(to: URL(filePath: path))
        refused = try await refusal()
        #expect(refused.reason == "store_newer_version" && refused.words.contains("later release"))
        try whole.write(to: URL(filePath: path))
        let lanyard = try start()
        try await lanyard.event("store.opened")
    }

    @Test("a wider mode, another owner, a symbolic link: 78, with the remedy")
    func unsafe() async throws {
        try await make()
        chmod(path, 0o640)
        var refused = try await refusal()
        #expect(refused.reason == "store_unsafe_mode" && refused.words.contains("chmod 600 \(path)"))
        chmod(path, 0o600)
        chmod(storeFolder, 0o750)
        refused = try await refusal()
        #expect(refused.reason == "store_unsafe_mode" && refused.words.contains("chmod 700 \(storeFolder)"))
        chmod(storeFolder, 0o700)
        if getuid() == 0 {
            chown(path, 0, 0)
            refused = try await refusal()
            #expect(refused.reason == "store_foreign_owner" && refused.words.contains("uid 0"))
            chown(path, 65534, 65534)
        }
        try FileManager.default.moveItem(atPath: path, toPath: storeFolder + "/elsewhere")
        symlink("elsewhere", path)
        refused = try await refusal()
        #expect(refused.reason == "store_not_regular" && refused.words.contains("is a symbolic link"))
    }

    @Test("a folder that is missing, and one that may not be written: 78, with the remedy")
    func folders() async throws {
        try configure("{path: none/below/sessions, key_file: key}")
        var refused = try await refusal()
        #expect(refused.reason == "store_system_call" && refused.words.contains("make the folder"))
        try configure("{path: store/sessions, key_file: key}")
        chmod(storeFolder, 0o500)
        refused = try await refusal()
        #expect(refused.words.contains("Permission denied") && refused.words.contains("write in \(storeFolder)"))
        chmod(storeFolder, 0o700)
        try await make()
    }

    @Test("a store that is there, in a folder that may not be written: 78 with the remedy, by check as well")
    func readOnlyFolder() async throws {
        try await make()
        chmod(storeFolder, 0o500)
        let refused = try await refusal()
        #expect(refused.reason == "store_system_call")
        #expect(refused.words.contains("Permission denied") && refused.words.contains("write in \(storeFolder)"))
        let check = try ServerProcess("lanyard", ["check", "--config", folder.file("lanyard.yaml")], as: .nobody)
        #expect(try await check.waitForExit() == .code(78))
        #expect(check.log.contains("error: ") && check.log.contains("write in \(storeFolder)"), "\(check.log)")
        chmod(storeFolder, 0o700)
        let lanyard = try start()
        #expect(try await lanyard.event("store.opened")["writes"].int == 1)
        #expect(!lanyard.lines.contains { $0.event == "store.leftover_removed" })
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("a key that is too short: 78, and no store is made")
    func shortKey() async throws {
        own(try folder.write("key", "short\n"))
        let refused = try await refusal()
        #expect(refused.reason == "store_unfit" && refused.words.contains("holds 5 bytes"))
        #expect(access(path, F_OK) != 0)
    }

    @Test(
        "no room for the first file: Lanyard runs, says so, and the check store is false",
        .disabled(
            if: Sanitizer.isThread, "the thread sanitizer's runtime writes a file of its own before the program begins")
    )
    func noRoom() async throws {
        let lanyard = try start(["/usr/bin/prlimit", "--fsize=0"])
        let failed = try await lanyard.event("store.write_failed")
        #expect(failed["msg"].string?.contains("raise the limit of file sizes") == true)
        let address = try await lanyard.event("listening") { $0["listener"].string == "health" }["address"].string
        let response = try await RawClient.ask(try RawEndpoint(address ?? ""), "GET", "/readyz")
        #expect(response.bodyText.contains(#"{"name":"store","ok":false,"reason":"store_failing"}"#))
        #expect(access(path, F_OK) != 0 && access(path + ".tmp", F_OK) != 0)
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("a temporary file that a crash has left is removed, and the store opens as it was")
    func leftover() async throws {
        try await make()
        let before = try bytes()
        try Data("half".utf8).write(to: URL(filePath: path + ".tmp"))
        own(path + ".tmp")
        let lanyard = try start()
        try await lanyard.event("store.leftover_removed")
        try await lanyard.event("store.opened")
        #expect(access(path + ".tmp", F_OK) != 0)
        #expect(try bytes() == before)
    }

    @Test("check says what run would say of the store, and touches nothing")
    func check() async throws {
        func check() async throws -> (exit: ServerProcess.Exit, log: String) {
            let command = ["check", "--config", folder.file("lanyard.yaml")]
            let process = try ServerProcess("lanyard", command, as: .nobody)
            return (try await process.waitForExit(), process.log)
        }
        let first = try await check()
        #expect(first.exit == .code(0) && first.log == "")
        #expect(try FileManager.default.contentsOfDirectory(atPath: storeFolder) == [])
        try await make()
        #expect(try await check().exit == .code(0))
        chmod(path, 0o644)
        let open = try await check()
        #expect(open.exit == .code(78) && open.log.contains(": store.path: \(path) has mode 0644"), "\(open.log)")
        #expect(open.log.hasPrefix("error: \(folder.file("lanyard.yaml")):"), "\(open.log)")
        chmod(path, 0o600)
        try configure("{path: store/sessions, key_file: other}")
        let wrong = try await check()
        let words = ": store.key_file: \(path) is sealed with another key"
        #expect(wrong.exit == .code(78) && wrong.log.contains(words), "\(wrong.log)")
    }

    // MARK: Rekeying

    private struct Outcome {
        var exit: ServerProcess.Exit
        var output: String
        var errors: String
    }

    private func rekey(_ arguments: String...) async throws -> Outcome {
        let command = ["store", "rekey", "--config", folder.file("lanyard.yaml")] + arguments
        let process = try ServerProcess("lanyard", command, as: .nobody)
        let exit = try await process.waitForExit()
        return Outcome(exit: exit, output: process.output, errors: process.log)
    }

    @Test("rekey seals the store with a new key, and says what to change; the old key opens it no more")
    func rekeying() async throws {
        try await make()
        let outcome = try await rekey("--new-passphrase-file", folder.file("phrase"))
        #expect(outcome.exit == .code(0) && outcome.errors == "")
        #expect(outcome.output.contains("\(path) is sealed with \(folder.file("phrase"))."))
        #expect(outcome.output.contains("store.passphrase_file: \(folder.file("phrase")), in place of"))
        #expect(try await refusal().reason == "store_wrong_key")
        let again = try await rekey("--new-key-file", folder.file("other"))
        #expect(again.exit == .code(78) && again.errors.contains("is sealed with a passphrase"))
        try configure("{path: store/sessions, passphrase_file: phrase}")
        let lanyard = try start()
        try await lanyard.event("store.opened")
    }

    @Test("a new key that is named from the working folder is told as the configuration finds it from its own")
    func rekeyElsewhere() async throws {
        try await make()
        let elsewhere = folder.file("elsewhere")
        guard mkdir(elsewhere, 0o700) == 0 else { throw TestFailure("mkdir: errno \(errno)") }
        own(elsewhere)
        own(try folder.write("elsewhere/new", String(repeating: "n", count: 32)))
        let rekey = try ServerProcess(
            "/usr/bin/env",
            [
                "-C", elsewhere, try Products.path("lanyard"), "store", "rekey", "--config",
                folder.file("lanyard.yaml"), "--new-key-file", "new",
            ], as: .nobody)
        #expect(try await rekey.waitForExit() == .code(0), "\(rekey.log)")
        let advice = rekey.output.firstRange(of: "store.key_file: ").map { rekey.output[$0.upperBound...] }
        let named = String(advice?.prefix { $0 != "," } ?? "")
        #expect(named == elsewhere + "/new")
        try configure("{path: store/sessions, key_file: \(named)}")
        let lanyard = try start()
        try await lanyard.event("store.opened")
        #expect(try await lanyard.terminate() == .code(143))
    }

    @Test("while a Lanyard has the store open rekey changes nothing: 75")
    func rekeyInUse() async throws {
        try await make()
        let lanyard = try start()
        try await lanyard.event("listening")
        let before = try bytes()
        let outcome = try await rekey("--new-key-file", folder.file("other"))
        #expect(outcome.exit == .code(75) && outcome.errors.contains("\(path) is in use"))
        #expect(try bytes() == before)
        // Even the end of a kill leaves nothing behind that would stand in the way.
        lanyard.signal(SIGKILL)
        _ = try await lanyard.waitForExit()
        #expect(try await rekey("--new-key-file", folder.file("other")).exit == .code(0))
    }

    @Test("rekey without a new key, with two, without a store or without its file is told at once")
    func rekeyMisused() async throws {
        #expect(try await rekey().exit == .code(64))
        let both = try await rekey("--new-key-file", "a", "--new-passphrase-file", "b")
        #expect(both.exit == .code(64))
        let missing = try await rekey("--new-key-file", folder.file("other"))
        #expect(missing.exit == .code(78) && missing.errors.contains(path))
        try await make()
        let short = try await rekey("--new-key-file", folder.file("phrase"))
        #expect(short.exit == .code(78) && short.errors.contains("at least 32"))
        try configure("{memory: true}")
        let memory = try await rekey("--new-key-file", folder.file("other"))
        #expect(memory.exit == .code(78) && memory.errors.contains("names no store.path"))
    }
}
