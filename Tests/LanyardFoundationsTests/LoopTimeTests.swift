import CLinux
import Dispatch
import Glibc
import TestSupport
import Testing

@testable import LanyardFoundations

/// Time that tests pass in an event loop.
@Suite struct LoopTimeTests {
    /// What happened, in order, with how much of the loop's time had passed.
    private final class Log: Sendable {
        let entries = Guarded<[String]>([])
        func add(_ what: String, at duration: Duration) {
            entries.withLock { $0.append("\(what) \(duration.nanoseconds / 1_000_000)") }
        }
    }

    /// Calls its work when it is due.
    private final class Timer: Watcher, @unchecked Sendable {
        private let deadline = Deadline()
        private let loop: EventLoop
        private let work: (Timer) -> Void

        /// On the loop's queue.
        init(on loop: EventLoop, at instant: Instant, work: @escaping (Timer) -> Void) {
            self.loop = loop
            self.work = work
            super.init()
            deadline.owner = self
            set(at: instant)
        }

        func set(at instant: Instant) { loop.set(deadline, at: instant) }
        override func due(_ deadline: Deadline) { work(self) }
    }

    /// Lives as long as the test: a deadline does not retain its owner.
    private final class Owners: @unchecked Sendable { var timers: [Timer] = [] }

    private let log = Log()
    private let owners = Owners()

    private func loop(stands: Bool = true) throws -> EventLoop {
        let loop = try EventLoop(label: "test.time")
        loop.start()
        if stands { loop.freezeTime() }
        return loop
    }

    /// Timers, by milliseconds from `start`; each logs its name with the loop's time.
    private func set(_ timers: [(String, Int)], on loop: EventLoop, from start: Instant) {
        let (log, owners) = (log, owners)
        loop.perform {
            for (name, milliseconds) in timers {
                owners.timers.append(
                    Timer(on: loop, at: start + .milliseconds(milliseconds)) { _ in
                        log.add(name, at: loop.now - start)
                    })
            }
        }
    }

    private var entries: [String] { log.entries.withLock { $0 } }

    @Test("deadlines are called in their order, each at its own instant, and none before the time has passed")
    func order() throws {
        let loop = try loop()
        defer { loop.stop() }
        let start = loop.perform { Instant.now }
        set([("c", 7_200_000), ("a", 3_600_000), ("b", 3_600_001), ("d", 7_300_000)], on: loop, from: start)
        loop.pass(.milliseconds(3_599_999))
        #expect(entries.isEmpty)
        loop.pass(.milliseconds(3_600_001))
        #expect(entries == ["a 3600000", "b 3600001", "c 7200000"])
        #expect(loop.perform { Instant.now } - start == .seconds(7_200))
        #expect(loop.perform { loop.now } - start == .seconds(7_200))
        #expect(loop.perform { WallTime.now } - WallTime.now > .seconds(7_000))
    }

    @Test("a deadline that a handler sets is called in the same passing, and one that it moves is not called early")
    func chains() throws {
        let loop = try loop()
        defer { loop.stop() }
        let (log, owners) = (log, owners)
        let start = loop.perform { Instant.now }
        loop.perform {
            owners.timers.append(
                Timer(on: loop, at: start + .seconds(100)) { timer in
                    log.add("tick", at: loop.now - start)
                    timer.set(at: loop.now + .seconds(100))
                })
            let moved = Timer(on: loop, at: start + .seconds(50)) { _ in log.add("moved", at: loop.now - start) }
            moved.set(at: start + .seconds(250))
            owners.timers.append(moved)
        }
        loop.pass(.seconds(350))
        #expect(entries == ["tick 100000", "tick 200000", "moved 250000", "tick 300000"])
    }

    @Test("all that follows from a deadline has happened before the next one: posts, descriptors, deferred watchers")
    func consequences() throws {
        let loop = try loop()
        defer { loop.stop() }
        let (log, owners) = (log, owners)
        var ends: [CInt] = [-1, -1]
        try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        let (near, far) = (ends[0], ends[1])
        let start = loop.perform { Instant.now }
        try loop.perform {
            Result {
                let reader = Reader {
                    log.add("read", at: loop.now - start)
                    loop.post { log.add("posted", at: loop.now - start) }
                }
                _ = try loop.watch(near, for: [.read, .edge], by: reader)
                owners.timers.append(
                    Timer(on: loop, at: start + .seconds(3_600)) { _ in
                        var byte: UInt8 = 1
                        send(far, &byte, 1, 0)
                        loop.resumeLater(Resumed { log.add("resumed", at: loop.now - start) })
                    })
            }
        }.get()
        set([("next", 3_600_001)], on: loop, from: start)
        loop.pass(.seconds(4_000))
        #expect(entries.sorted() == ["next 3600001", "posted 3600000", "read 3600000", "resumed 3600000"])
        #expect(entries.last == "next 3600001")
    }

    @Test("loops pass time together: one instant after the other, and what one posts to another belongs to its instant")
    func severalLoops() throws {
        let loops = try [loop(), loop()]
        defer { for loop in loops { loop.stop() } }
        let (log, owners) = (log, owners)
        let starts = loops.map { loop in loop.perform { Instant.now } }
        set([("a", 1_000_000), ("c", 3_000_000)], on: loops[0], from: starts[0])
        loops[1].perform {
            owners.timers.append(
                Timer(on: loops[1], at: starts[1] + .seconds(2_000)) { _ in
                    loops[0].post { log.add("b", at: loops[0].now - starts[0]) }
                })
        }
        loops.pass(.seconds(3_000))
        let names = entries.map { $0.prefix(1) }
        #expect(names == ["a", "b", "c"])
    }

    @Test("a reply of work outside the loop is waited for, unless the test lets it hang", arguments: [true, false])
    func replies(waits: Bool) async throws {
        let loop = try loop()
        defer { loop.stop() }
        let (log, owners) = (log, owners)
        let start = loop.perform { Instant.now }
        let replies = Guarded<[@Sendable (Int) -> Void]>([])
        loop.perform {
            owners.timers.append(
                Timer(on: loop, at: start + .seconds(10)) { _ in
                    let reply = loop.awaitedReply { (_: Int) in log.add("reply", at: loop.now - start) }
                    replies.withLock { $0.append(reply) }
                })
        }
        set([("next", 11_000)], on: loop, from: start)
        let code = DetachedThread.start {
            do {
                try blockUntil("the reply is awaited") { replies.withLock { !$0.isEmpty } }
            } catch {
                return _ = Issue.record(error)
            }
            // As many rounds as a passing that does not wait takes to the end.
            for _ in 0..<100 { loop.perform {} }
            let reply = replies.withLock { $0.removeFirst() }
            loop.post { reply(1) }
        }
        try #require(code == 0)
        loop.pass(.seconds(20), waitsForReplies: waits)
        if waits { return #expect(entries == ["reply 10000", "next 11000"]) }
        #expect(entries.first == "next 11000")
        try await eventually("the reply comes") { entries.count == 2 }
    }

    @Test("a time that ran continues from where it was moved to; one that stood stands, but for deadlines of now")
    func between() async throws {
        let (running, standing) = (try loop(stands: false), try loop())
        defer { for loop in [running, standing] { loop.stop() } }
        let starts = [running, standing].map { loop in loop.perform { Instant.now } }
        [running, standing].pass(.seconds(3_600))
        set([("soon", 3_600_010)], on: running, from: starts[0])
        try await eventually("it is called") { !entries.isEmpty }
        set([("later", 3_600_001), ("now", 3_600_000)], on: standing, from: starts[1])
        try await eventually("it is called") { entries.last == "now 3600000" }
        let ran = running.perform { Instant.now } - starts[0]
        #expect(ran >= .seconds(3_600) + .milliseconds(10))
        #expect(standing.perform { Instant.now } - starts[1] == .seconds(3_600))
        #expect(entries.count == 2)
    }
}

/// Calls its work when its descriptor is ready.
private final class Reader: Watcher, @unchecked Sendable {
    private let work: () -> Void
    init(_ work: @escaping () -> Void) { self.work = work }
    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) { work() }
}

/// Calls its work when it is resumed.
private final class Resumed: Watcher, @unchecked Sendable {
    private let work: () -> Void
    init(_ work: @escaping () -> Void) { self.work = work }
    override func resume() { work() }
}
