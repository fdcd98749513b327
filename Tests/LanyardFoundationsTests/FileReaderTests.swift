import Foundation
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

/// Files that hang cost a thread each, and delay no other file.
@Suite struct FileReaderTests {
    private static let found = FileSnapshot(stamp: nil, outcome: .failure(.notRegular))

    private func loop() throws -> EventLoop {
        let loop = try EventLoop(label: "test.files")
        loop.start()
        return loop
    }

    @Test("files that hang hold up no other file, 63 of them at once, and each has one look in progress")
    func hanging() async throws {
        let (open, hung, looks, completed) = (Milestone(), Tally(), Tally(), Tally())
        defer { open.set() }
        let files = FileReader { path, _ in
            if path.hasPrefix("hung") {
                looks.add()
                open.wait(for: "the file is readable again")
            }
            return Self.found
        }
        let loop = try loop()
        defer { loop.stop() }
        for _ in 0..<3 {
            for number in 0..<63 { files.read(at: "hung\(number)", on: loop) { _ in hung.add() } }
        }
        for number in 0..<100 { files.read(at: "file\(number)", on: loop) { _ in completed.add() } }
        try await eventually("the others are answered") { completed.value == 100 }
        try await eventually("each that hangs is looked at") { looks.value == 63 }
        #expect(hung.value == 0)
        open.set()
        try await eventually("all are answered") { hung.value == 3 * 63 }
        #expect(looks.value == 63)
    }

    @Test("ten thousand files that are quickly looked at do not take all threads")
    func quick() async throws {
        let (threads, completed) = (Tally(), Tally())
        let files = FileReader(
            read: { _, _ in Self.found },
            start: { body in
                threads.add()
                Thread.detachNewThread(body)
                return 0
            })
        let loop = try loop()
        defer { loop.stop() }
        for number in 0..<10_000 { files.read(at: "\(number)", on: loop) { _ in completed.add() } }
        try await eventually("all are answered") { completed.value == 10_000 }
        #expect(threads.value < FileReader.threadsMax)
    }

    @Test("no more than 64 threads look at once; what waits for one is looked at later")
    func bound() async throws {
        let (open, busy, completed) = (Milestone(), Tally(), Tally())
        defer { open.set() }
        let files = FileReader { _, _ in
            busy.add()
            open.wait(for: "the file is readable again")
            return Self.found
        }
        let loop = try loop()
        defer { loop.stop() }
        for number in 0..<100 { files.read(at: "\(number)", on: loop) { _ in completed.add() } }
        try await eventually("all threads are busy") { busy.value == FileReader.threadsMax }
        open.set()
        try await eventually("all are answered") { completed.value == 100 }
        #expect(busy.value == 100)
    }

    @Test("who knows another stamp than the one that spared the reading has the file read")
    func stamps() async throws {
        let (open, begun) = (Milestone(), Tally())
        defer { open.set() }
        let stamp = FileSnapshot.Stamp(device: 1, inode: 1, size: 1, changedAt: 1, mode: 0)
        let files = FileReader { _, known in
            begun.add()
            open.wait(for: "the file is readable again")
            return FileSnapshot(stamp: stamp, outcome: known == stamp ? nil : .failure(.empty))
        }
        let loop = try loop()
        defer { loop.stop() }
        let replies = Guarded<[String: Bool]>([:])
        files.read(at: "file", known: stamp, on: loop) { read in replies.withLock { $0["knows"] = read.outcome == nil }
        }
        try await eventually("the look has begun") { begun.value == 1 }
        files.read(at: "file", on: loop) { read in replies.withLock { $0["asks"] = read.outcome == nil } }
        open.set()
        try await eventually("both are answered") { replies.withLock { $0.count } == 2 }
        #expect(replies.withLock { $0 } == ["knows": true, "asks": false])
    }

    @Test("the stop replies to every caller at once, also to later ones; the result of a hanging read is ignored")
    func stops() async throws {
        let (open, stopped) = (Milestone(), Tally())
        defer { open.set() }
        let files = FileReader { _, _ in
            open.wait(for: "the file is readable again")
            return Self.found
        }
        let loop = try loop()
        defer { loop.stop() }
        let reply: FileReader.Reply = { read in
            if case .failure(.stopping)? = read.outcome { stopped.add() } else { Issue.record("another answer") }
        }
        files.read(at: "hung", on: loop, reply: reply)
        files.stop()
        files.read(at: "later", on: loop, reply: reply)
        try await eventually("both are answered") { stopped.value == 2 }
    }

    @Test("without a thread a look fails at once as a shortage, and is taken when there are threads again")
    func noThread() async throws {
        let (hasThreads, read, short) = (Milestone(), Tally(), Tally())
        let files = FileReader(
            read: { _, _ in Self.found },
            start: { body in
                guard hasThreads.isSet else { return EAGAIN }
                Thread.detachNewThread(body)
                return 0
            })
        let loop = try loop()
        defer { loop.stop() }
        let reply: FileReader.Reply = { result in
            guard case .failure(let problem)? = result.outcome else { return }
            if problem.isShortage { short.add() } else { read.add() }
        }
        files.read(at: "file", on: loop, reply: reply)
        try await eventually("it fails") { short.value == 1 }
        hasThreads.set()
        files.read(at: "file", on: loop, reply: reply)
        try await eventually("it is read") { read.value == 1 }
    }

    /// A settled read on a loop whose time the test passes, and what it has told.
    private final class Told: Sendable {
        let loop: EventLoop
        private let held = Held()
        var word: String? { held.word.withLock { $0 } }

        private final class Held: Sendable { let word = Guarded<String?>(nil) }

        init(_ files: FileReader) throws {
            loop = try EventLoop(label: "test.files")
            loop.start()
            loop.freezeTime()
            let (loop, held) = (loop, held)
            loop.perform {
                SettledRead.begin("/secret", by: files, on: loop) { outcome in
                    let word =
                        switch outcome {
                        case .success: "content"
                        case .failure(let problem): "\(problem)"
                        }
                    held.word.withLock { $0 = word }
                }
            }
        }

        deinit { loop.stop() }
    }

    @Test("a settled read ends after 5 s if its file hangs")
    func settledReadHangs() throws {
        let open = Milestone()
        defer { open.set() }
        let told = try Told(
            FileReader { _, _ in
                open.wait(for: "the file is readable again")
                return Self.found
            })
        told.loop.pass(.nanoseconds(4_999_999_999), waitsForReplies: false)
        #expect(told.word == nil)
        told.loop.pass(.nanoseconds(1), waitsForReplies: false)
        #expect(told.word == "delayed")
    }

    @Test("a settled read ends after 5 s if its file changes with each look; one that is at rest is read once")
    func settledReads() throws {
        let count = Tally()
        func changing(at time: @escaping @Sendable () -> Int64) -> FileReader {
            FileReader { _, _ in
                count.add()
                let stamp = FileSnapshot.Stamp(device: 1, inode: 1, size: 0, changedAt: time(), mode: 0)
                return FileSnapshot(stamp: stamp, outcome: .failure(.empty))
            }
        }
        // The first of these stamps is older than any file needs to be.
        let old = try Told(changing { Int64(count.value) })
        old.loop.settle()
        #expect(old.word == "empty" && count.value == 1)
        let young = try Told(changing { WallTime.ofMachine.nanoseconds })
        young.loop.pass(.nanoseconds(4_999_999_999))
        #expect(young.word == nil)
        // One look each 200 ms.
        #expect(count.value == 1 + 25)
        young.loop.pass(.nanoseconds(1))
        #expect(young.word == "unsettled")
    }
}
