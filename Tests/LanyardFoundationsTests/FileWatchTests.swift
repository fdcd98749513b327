import Dispatch
import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

@Suite("Secret files")
struct FileWatchTests {
    /// A watch and what it has told, as words. Time stands but for what the test passes.
    private final class Told: Sendable {
        let loop: EventLoop
        let watch: FileWatch
        private let held: Held

        final class Held: Sendable { let words = Guarded<[String]>([]) }

        init(_ path: String, by files: FileReader = FileReader()) throws {
            loop = try EventLoop(label: "test.files")
            loop.start()
            loop.freezeTime()
            let held = Held()
            self.held = held
            watch = FileWatch(path, by: files, on: loop) { outcome in
                let word =
                    switch outcome {
                    case .success(let content): content.secret.withBytes { String(decoding: $0, as: UTF8.self) }
                    case .failure(let problem): "\(problem)"
                    }
                held.words.withLock { $0.append(word) }
            }
            watch.start()
        }

        deinit {
            watch.stop()
            loop.stop()
        }

        var words: [String] { held.words.withLock { $0 } }

        /// Passes an interval and what a change takes to settle: every watch of the loop has looked since.
        func look() { loop.pass(FileWatch.interval + FileSettling.settlingDelay) }

        func expect(_ expected: [String], sourceLocation: SourceLocation = #_sourceLocation) {
            look()
            #expect(words == expected, sourceLocation: sourceLocation)
        }
    }

    #if DEBUG
    @Test("a watch ends the process when another queue than its loop's calls it")
    func foreignQueue() async {
        await #expect(processExitsWith: .failure) {
            guard let loop = try? EventLoop(label: "test.foreign") else { exit(0) }
            FileWatch("/nowhere", on: loop) { _ in }.due(Deadline())
            exit(0)
        }
    }
    #endif

    @Test("what the file holds is told at the start and after each change, its going and its return included")
    func changes() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one\n")
        let told = try Told(path)
        told.expect(["one"])
        try folder.write("secret", "two")
        told.expect(["one", "two"])
        unlink(path)
        told.expect(["one", "two", "system(2)"])
        try folder.write("secret", "two")
        told.expect(["one", "two", "system(2)", "two"])
    }

    @Test("a file that was written just before the first read is read once, unless a process has it open for writing")
    func justWritten() async throws {
        let folder = try TemporaryFolder()
        let reads = Tally()
        let files = FileReader { path, known in
            reads.add()
            return FileSnapshot.read(path, known: known)
        }
        let path = try folder.write("secret", "ha")
        let writer = open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
        #expect(try !SecretFile.read(path).isComplete)
        write(writer, "lf", 2)
        close(writer)
        // A child of another test may have inherited the descriptor until it executes its program.
        try await eventually("no process has the file open") {
            chmod(path, 0o600)
            return try SecretFile.read(path).isComplete
        }
        let told = try Told(path, by: files)
        told.loop.settle()
        #expect(told.words == ["half"])
        #expect(reads.value == 1)
    }

    @Test("a complete content is whole while another process rewrites the file repeatedly; its signal ends no process")
    func writerDuringRead() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "12345678")
        let (rounds, stopped) = (DispatchSemaphore(value: 0), Milestone())
        defer {
            stopped.set()
            rounds.signal()
        }
        let code = DetachedThread.start {
            while true {
                rounds.wait()
                guard !stopped.isSet else { return }
                for _ in 0..<20 {
                    let writer = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
                    write(writer, "1234", 4)
                    write(writer, "5678", 4)
                    close(writer)
                }
            }
        }
        #expect(code == 0)
        var complete = 0
        try await eventually("50 reads are complete") {
            // Many reads while the writer writes, and some behind it.
            for _ in 0..<200 {
                rounds.signal()
                for _ in 0..<20 {
                    guard let content = try? SecretFile.read(path), content.isComplete else { continue }
                    #expect(content.secret.count == 8)
                    complete += 1
                }
            }
            return complete >= 50
        }
    }

    @Test("a content is told again when another one was used between two looks, which the watch has never seen")
    func usedBetweenLooks() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "right")
        let files = FileReader()
        let told = try Told(path, by: files)
        told.expect(["right"])
        // What a login read at a moment of its own: wrong bytes, or none.
        files.noteUse(of: path, .failure(.empty))
        told.expect(["right", "right"])
        // The same again is no news, and what is there now is none either.
        let content = try FileSettling.Finding(nil, .success(SecretFile.read(path))).content
        files.noteUse(of: path, content)
        told.look()
        #expect(told.words == ["right", "right"])
    }

    @Test("a content is told again after a login that could not read it in time")
    func delayedUse() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "right")
        let hangs = Guarded(false)
        let isFree = Milestone()
        defer { isFree.set() }
        let files = FileReader { path, known in
            if hangs.withLock({ $0 }) { isFree.wait(for: "the test frees the file") }
            return FileSnapshot.read(path, known: known)
        }
        let told = try Told(path, by: files)
        told.expect(["right"])
        hangs.withLock { $0 = true }
        let outcome = Guarded<String?>(nil)
        told.loop.post {
            SettledRead.begin(path, by: files, on: told.loop) { read in outcome.withLock { $0 = "\(read)" } }
        }
        told.loop.pass(SettledRead.timeout, waitsForReplies: false)
        #expect(outcome.withLock { $0 }?.contains("delayed") == true)
        #expect(told.words == ["right"])
        hangs.withLock { $0 = false }
        isFree.set()
        told.expect(["right", "right"])
    }

    @Test("a swap of symbolic links, as Kubernetes does it, is seen")
    func swaps() throws {
        let folder = try TemporaryFolder()
        for name in ["v1", "v2"] { mkdir(folder.file(name), 0o700) }
        try folder.write("v1/token", "old")
        try folder.write("v2/token", "new")
        symlink("v1", folder.file("..data"))
        symlink("..data/token", folder.file("token"))
        let told = try Told(folder.file("token"))
        told.expect(["old"])
        symlink("v2", folder.file("..next"))
        rename(folder.file("..next"), folder.file("..data"))
        told.expect(["old", "new"])
    }

    @Test("a write of the same length right after a look is seen")
    func racy() throws {
        let folder = try TemporaryFolder()
        let told = try Told(try folder.write("secret", "aaa"))
        told.expect(["aaa"])
        try folder.write("secret", "bbb")
        told.expect(["aaa", "bbb"])
    }

    @Test("the same bytes written again are not told")
    func sameBytes() throws {
        let folder = try TemporaryFolder()
        let told = try Told(try folder.write("secret", "same"))
        told.expect(["same"])
        try folder.write("secret", "same")
        told.look()
        try folder.write("secret", "other")
        told.expect(["same", "other"])
    }

    @Test("a stopped watch tells nothing and is let go")
    func stops() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let told = try Told(path)
        told.expect(["one"])
        told.watch.stop()
        try folder.write("secret", "two")
        told.look()
        #expect(told.words == ["one"])
    }

    /// A file system that shows a file's versions one after the other, each for one look; the last one stays.
    private static func script(_ versions: [String]) -> FileReader {
        let left = Guarded(versions.enumerated().map { ($0.offset, $0.element) })
        return FileReader { _, known in
            let (number, text) = left.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            let stamp = FileSnapshot.Stamp(
                device: 1, inode: 1, size: text.utf8.count, changedAt: Int64(number), mode: 0)
            guard stamp != known else { return FileSnapshot(stamp: stamp, outcome: nil) }
            guard !text.isEmpty else { return FileSnapshot(stamp: stamp, outcome: .failure(.empty)) }
            var bytes = Array(text.utf8)
            let secret = bytes.withUnsafeMutableBytes { Secret(copying: UnsafeRawBufferPointer($0)) }
            return FileSnapshot(
                stamp: stamp,
                outcome: .success(.init(secret: secret, isWorldReadable: false, isComplete: false, readAt: .now)))
        }
    }

    @Test("what only one look has found is not told: an empty file, half a secret, the next half")
    func halves() throws {
        let told = try Told("/secret", by: Self.script(["old", "", "ne", "new-", "", "new-secret"]))
        // The first change is found after an interval, each of the five that follow one settling delay later.
        told.loop.pass(FileWatch.interval + FileSettling.settlingDelay * 5)
        #expect(told.words == ["old", "new-secret"])
    }

    @Test("a file that is empty at a second look, too, is told as empty")
    func empty() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("secret", "one")
        let told = try Told(path)
        told.expect(["one"])
        try folder.write("secret", "")
        told.expect(["one", "empty"])
    }

    @Test("a look that hangs at the start is told as a problem after 5 s; what it finds in the end is told, too")
    func hangs() throws {
        let open = Milestone()
        let files = FileReader { _, _ in
            open.wait(for: "the test frees the file")
            return FileSnapshot(stamp: nil, outcome: .failure(.system(EACCES)))
        }
        let told = try Told("/secret", by: files)
        told.loop.pass(FileWatch.readTimeout - .nanoseconds(1), waitsForReplies: false)
        #expect(told.words.isEmpty)
        told.loop.pass(.nanoseconds(1), waitsForReplies: false)
        #expect(told.words == ["delayed"])
        open.set()
        told.expect(["delayed", "system(13)"])
    }

    @Test("the largest secret is 64 KiB; a pipe and a folder are none")
    func kinds() throws {
        let folder = try TemporaryFolder()
        let largest = try folder.write("largest", String(repeating: "x", count: SecretFile.bytesMax))
        #expect(try SecretFile.read(largest).secret.count == SecretFile.bytesMax)
        let larger = try folder.write("larger", String(repeating: "x", count: SecretFile.bytesMax + 1))
        #expect(throws: SecretFile.ReadError.tooLarge(bytesMax: SecretFile.bytesMax)) { try SecretFile.read(larger) }
        #expect(try SecretFile.read(larger, bytesMax: SecretFile.credentialBytesMax).secret.count > SecretFile.bytesMax)
        #expect(
            SecretFile.ReadError.tooLarge(bytesMax: 64 << 10).message(path: "/a").hasPrefix("/a is larger than 64 KiB"))
        #expect(
            SecretFile.ReadError.tooLarge(bytesMax: 1 << 20).message(path: "/a").hasPrefix("/a is larger than 1 MiB"))
        mkfifo(folder.file("pipe"), 0o600)
        #expect(throws: SecretFile.ReadError.notRegular) { try SecretFile.read(folder.file("pipe")) }
        #expect(throws: SecretFile.ReadError.notRegular) { try SecretFile.read(folder.path) }
        #expect(throws: SecretFile.ReadError.notRegular) { try SecretFile.read("/dev/zero") }
        #expect(throws: SecretFile.ReadError.system(ENOENT)) { try SecretFile.read(folder.file("none")) }
        let all = try folder.write("all", "x", mode: 0o644)
        #expect(try SecretFile.read(all).isWorldReadable && !SecretFile.read(largest).isWorldReadable)
    }

    @Test("a file that may not be read says who must be let in", .enabled(if: getuid() != 0))
    func forbidden() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("mine", "x", mode: 0)
        #expect(throws: SecretFile.ReadError.system(EACCES)) { try SecretFile.read(path) }
    }
}
