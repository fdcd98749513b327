import CLinux
import Dispatch
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@Suite struct EventLoopTests {
    private let loop: EventLoop

    init() throws {
        loop = try EventLoop(label: "test.loop")
        loop.start()
    }

    /// Runs on the loop and waits for it.
    private func onLoop<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            loop.post { continuation.resume(with: Result { try work() }) }
        }
    }

    @Test("posted work runs in order, from however many threads it comes")
    func order() async throws {
        let log = Log()
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<4 {
                group.addTask { for number in 0..<500 { loop.post { log.add(thread * 1_000 + number) } } }
            }
        }
        try await eventually("all ran") { log.numbers.count == 2_000 }
        for thread in 0..<4 {
            #expect(log.numbers.filter { $0 / 1_000 == thread }.map { $0 % 1_000 } == Array(0..<500))
        }
        loop.stop()
    }

    #if DEBUG
    @Test("a function of a type that belongs to a loop ends the process when another queue calls it")
    func foreignQueue() async throws {
        await #expect(processExitsWith: .failure) {
            let loop = try EventLoop(label: "test.foreign")
            loop.set(Deadline(), at: .never)
        }
    }
    #endif

    /// The median of times from a post to its work, on a loop that lingers.
    func lingeringWake() async throws -> Duration {
        let pair = Pair()
        let loop = loop
        _ = try await onLoop { try loop.watch(pair.ours, for: [.read, .edge], by: Echo(pair.ours)) }
        let median = {
            // Each byte starts a batch, after which the loop lingers; the post comes in the middle of that.
            var times: [Duration] = []
            for _ in 0..<300 {
                pair.sayAndHear()
                let start = Instant.now
                let done = DispatchSemaphore(value: 0)
                loop.post { done.signal() }
                done.wait()
                times.append(Instant.now - start)
            }
            return times.sorted()[150]
        }()
        loop.stop()
        return median
    }

    @Test("a deadline is told once, not before its time, also when the loop was idle; a later one replaces it")
    func deadlines() async throws {
        let (owner, latest) = (Recorder(), Recorder())
        let loop = loop
        let start = Instant.now
        try await onLoop {
            owner.deadline = Deadline(of: owner)
            loop.set(owner.deadline!, at: start + .milliseconds(20))
            loop.set(owner.deadline!, at: start + .milliseconds(80))
            loop.set(owner.deadline!, at: start + .milliseconds(50))
            latest.deadline = Deadline(of: latest)
            loop.set(latest.deadline!, at: start + .milliseconds(120))
        }
        try await eventually("it is told") { owner.log.numbers.count > 0 }
        let toldAt = try #require(owner.toldAt)
        #expect(toldAt - start >= .milliseconds(50))
        // Deadlines are told in their order: with this one all that were ever set for the owner have passed.
        try await eventually("a later one is told") { latest.log.numbers.count > 0 }
        #expect(owner.log.numbers.count == 1)
        #expect(try toldAt <= #require(latest.toldAt))
        loop.stop()
    }

    @Test("a dropped deadline is never told, even if its owner is gone")
    func dropped() async throws {
        let loop = loop
        let latest = Recorder()
        let logs = try await onLoop { () -> [Log] in
            var logs: [Log] = []
            for _ in 0..<10 {
                let owner = Recorder()
                let deadline = Deadline(of: owner)
                loop.set(deadline, at: loop.now + .milliseconds(1))
                loop.set(deadline, at: loop.now + .milliseconds(2))
                loop.drop(deadline)
                let unset = Recorder()
                let other = Deadline(of: unset)
                loop.set(other, at: loop.now + .milliseconds(1))
                loop.set(other, at: .never)
                logs += [owner.log, unset.log]
                // Alive until the last deadline has passed, every other time: a stale entry would be told to it.
                if logs.count % 4 == 0 { latest.kept += [owner, unset] }
            }
            latest.deadline = Deadline(of: latest)
            loop.set(latest.deadline!, at: loop.now + .milliseconds(10))
            return logs
        }
        try await eventually("a later one is told") { latest.log.numbers.count > 0 }
        #expect(logs.allSatisfy { $0.numbers.isEmpty })
        loop.stop()
    }

    @Test(
        "an event of a registration that was forgotten in the same batch is told neither to its watcher nor to its successor"
    )
    func stale() async throws {
        let loop = loop
        let (first, second, third) = (Pair(), Pair(), Pair())
        let log = Log()
        let state = Ends()
        try await onLoop {
            // The one that is told first ends the other and registers a third in its slot.
            for (index, pair) in [first, second].enumerated() {
                let watcher = Closure { _ in
                    log.add(index)
                    guard let other = state.watches[1 - index] else { return }
                    state.watches[1 - index] = nil
                    loop.unwatch(other)
                    _ = try? loop.watch(third.ours, for: [.read, .edge], by: Closure { _ in log.add(3) })
                }
                state.watches[index] = try loop.watch(pair.ours, for: [.read, .edge], by: watcher)
            }
            first.say()
            second.say()
        }
        try await eventually("one is told") { log.numbers.count > 0 }
        _ = try await onLoop { true }
        #expect(log.numbers.count == 1)
        loop.stop()
    }

    @Test("a descriptor is known to be silent if the report has nothing of it, and only after it was emptied")
    func silent() async throws {
        let loop = loop
        let (told, other) = (Pair(), Pair())
        let (known, emptiedNow) = (Log(), Log())
        try await onLoop {
            let watch = try loop.watch(other.ours, for: [.read, .edge], by: Closure { _ in })
            let watcher = Closure { _ in
                known.add(!loop.mayHavePendingInput(watch, since: loop.waits - 1) ? 1 : 0)
                emptiedNow.add(!loop.mayHavePendingInput(watch, since: loop.waits) ? 1 : 0)
            }
            _ = try loop.watch(told.ours, for: [.read, .edge], by: watcher)
        }
        try await eventually("it is known") {
            told.say()
            return known.numbers.contains(1)
        }
        #expect(!emptiedNow.numbers.contains(1))
        loop.stop()
    }

    @Test("a descriptor is not known to be silent if its event waits or the report was full; an old one is renewed")
    func notSilent() async throws {
        let loop = loop
        let (first, second, third) = (Pair(), Pair(), Pair())
        let state = Ends()
        let (waiting, late) = (Log(), Log())
        try await onLoop {
            state.watches[2] = try loop.watch(third.ours, for: [.read, .edge], by: Closure { _ in late.add(3) })
            for (index, pair) in [first, second].enumerated() {
                let watcher = Closure { _ in
                    // For the one that is told first.
                    if waiting.numbers.isEmpty {
                        waiting.add(!loop.mayHavePendingInput(state.watches[1 - index]!, since: loop.waits - 1) ? 1 : 0)
                    }
                    // A sleep, as a report is old after 1 ms of the machine's time, which no test passes.
                    usleep(1_100)
                    if late.numbers.isEmpty { third.say() }
                    late.add(!loop.mayHavePendingInput(state.watches[1 - index]!, since: loop.waits - 1) ? 1 : 0)
                    late.add(!loop.mayHavePendingInput(state.watches[2]!, since: loop.waits - 1) ? 1 : 0)
                }
                state.watches[index] = try loop.watch(pair.ours, for: [.read, .edge], by: watcher)
            }
            first.say()
            second.say()
        }
        try await eventually("all are told") { late.numbers.count == 5 }
        // The first asks while the events of both others wait, the second when nothing came of the first, and the third's event is new.
        #expect(waiting.numbers == [0] && late.numbers == [0, 0, 1, 0, 3])

        let full = Log()
        let counters = (0..<260).map { _ in eventfd(1, CInt(EFD_CLOEXEC)) }
        defer { for counter in counters { close(counter) } }
        try #require(counters.allSatisfy { $0 >= 0 })
        try await onLoop {
            for counter in counters {
                let watcher = Closure { _ in
                    // The batches after the first are not full.
                    guard full.numbers.isEmpty else { return }
                    full.add(!loop.mayHavePendingInput(state.watches[0]!, since: loop.waits - 1) ? 1 : 0)
                }
                _ = try loop.watch(counter, for: [.read, .edge], by: watcher)
            }
        }
        try await eventually("the first is told") { !full.numbers.isEmpty }
        #expect(full.numbers == [0])
        withExtendedLifetime((first, second, third)) { loop.stop() }
    }

    @Test("a put-off watcher continues after the others, whether it was put off by an event or by posted work")
    func resumeLater() async throws {
        let loop = loop
        let watcher = Recorder()
        try await onLoop { loop.resumeLater(watcher) }
        try await eventually("resumed after a post") { watcher.log.numbers == [2] }
        let pair = Pair()
        try await onLoop {
            _ = try loop.watch(pair.ours, for: [.read, .edge], by: Closure { _ in loop.resumeLater(watcher) })
        }
        pair.say()
        try await eventually("resumed after an event") { watcher.log.numbers == [2, 2] }
        loop.stop()
    }

    @Test("what becomes ready is told before a crowd that was put off has had its turn")
    func laterInACrowd() async throws {
        let loop = loop
        let pair = Pair()
        let resumed = Log()
        let told = Log()
        let crowd = (0..<1_000).map { number in
            Resumed {
                if number == 0 { pair.say() }
                resumed.add(number)
            }
        }
        try await onLoop {
            let watcher = Closure { _ in told.add(resumed.numbers.count) }
            _ = try loop.watch(pair.ours, for: [.read, .edge], by: watcher)
            for watcher in crowd { loop.resumeLater(watcher) }
        }
        try await eventually("all continue") { resumed.numbers.count == 1_000 && told.numbers.count == 1 }
        #expect(resumed.numbers == Array(0..<1_000))
        #expect(told.numbers[0] < 100)
        loop.stop()
    }

    @Test("work that is posted while a watcher continues again and again does not multiply the loop's turns")
    func oneTurnAtATime() async throws {
        let loop = loop
        let endless = Endless(on: loop)
        try await onLoop { loop.resumeLater(endless) }
        for _ in 0..<200 {
            // Each falls between two turns.
            try await onLoop {}
        }
        let iterations = try await onLoop {
            endless.isStopped = true
            return loop.iterations
        }
        // Turns are blocks of one serial queue: those that wait there now run before a block that is put behind them. A turn that finds
        // nothing lasts until its timeout ends or another thread posts, and is followed by none or by one more.
        for _ in 0..<5 { try await onLoop {} }
        let after = try await onLoop { loop.iterations }
        #expect(after - iterations < 10)
        loop.stop()
    }

    @Test("a watcher put off by a deadline continues")
    func laterFromDeadline() async throws {
        let loop = loop
        let watcher = Recorder()
        try await onLoop {
            watcher.deadline = Deadline(of: watcher)
            watcher.whenDue = { loop.resumeLater(watcher) }
            loop.set(watcher.deadline!, at: loop.now + .milliseconds(5))
        }
        try await eventually("resumed") { watcher.log.numbers == [1, 2] }
        loop.stop()
    }

    @Test("a watched descriptor tells its ends")
    func ends() async throws {
        let loop = loop
        let pair = Pair()
        let log = Log()
        try await onLoop {
            let watcher = Closure { log.add(Int($0.rawValue)) }
            _ = try loop.watch(pair.ours, for: [.read, .readHangUp, .edge], by: watcher)
        }
        pair.halfClose()
        try await eventually("told") {
            log.numbers.contains { IOReadiness(rawValue: UInt32($0)).contains(.readHangUp) }
        }
        loop.stop()
    }

    @Test("what cannot be watched is an error, and costs no slot")
    func unwatchable() async throws {
        let loop = loop
        let failed = try await onLoop { () -> Bool in
            do throws(SystemError) {
                _ = try loop.watch(-1, for: .read, by: Recorder())
                return false
            } catch {
                return error.kind == .system(EBADF)
            }
        }
        #expect(failed)
        loop.stop()
    }
}

/// Numbers noted from any thread.
private final class Log: Sendable {
    private let box = Guarded<[Int]>([])
    var numbers: [Int] { box.withLock { $0 } }
    func add(_ number: Int) { box.withLock { $0.append(number) } }
}

/// Notes 1 for a deadline, 2 for continuing.
private final class Recorder: Watcher, @unchecked Sendable {
    let log = Log()
    var deadline: Deadline?
    var whenDue: () -> Void = {}
    private(set) var toldAt: Instant?
    var kept: [Recorder] = []
    override func due(_ deadline: Deadline) {
        toldAt = .now
        log.add(1)
        whenDue()
    }
    override func resume() { log.add(2) }
}

private final class Closure: Watcher, @unchecked Sendable {
    private let work: (IOReadiness) -> Void
    init(_ work: @escaping (IOReadiness) -> Void) { self.work = work }
    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) { work(readiness) }
}

/// Sends each byte back.
private final class Echo: Watcher, @unchecked Sendable {
    private let descriptor: CInt
    init(_ descriptor: CInt) { self.descriptor = descriptor }
    override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        var byte: UInt8 = 0
        while recv(descriptor, &byte, 1, CInt(MSG_DONTWAIT)) == 1 { send(descriptor, &byte, 1, 0) }
    }
}

/// Registrations that a test's watchers share on the loop.
private final class Ends: @unchecked Sendable { var watches: [Int: EventLoop.Watch] = [:] }

/// Two connected sockets.
private final class Pair: @unchecked Sendable {
    let ours: CInt
    private let theirs: CInt

    init() {
        var ends: [CInt] = [-1, -1]
        socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
        (ours, theirs) = (ends[0], ends[1])
    }

    deinit {
        close(ours)
        close(theirs)
    }

    func say() {
        var byte: UInt8 = 1
        send(theirs, &byte, 1, 0)
    }

    func sayAndHear() {
        say()
        var byte: UInt8 = 0
        recv(theirs, &byte, 1, 0)
    }

    func halfClose() { shutdown(theirs, CInt(SHUT_WR)) }
}

/// Says that it continues.
private final class Resumed: Watcher, @unchecked Sendable {
    private let work: @Sendable () -> Void
    init(_ work: @escaping @Sendable () -> Void) {
        self.work = work
        super.init()
    }
    override func resume() { work() }
}

/// Continues until it is stopped.
private final class Endless: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    var isStopped = false
    init(on loop: EventLoop) {
        self.loop = loop
        super.init()
    }
    override func resume() { if !isStopped { loop.resumeLater(self) } }
}

/// What a post waits for at most. Alone, since time is measured.
@Suite struct AloneEventLoopTests {
    @Test("a loop that lingers is woken by a post: none waits for the millisecond's end")
    func wakes() async throws {
        let median = try await EventLoopTests().lingeringWake()
        #expect(median < .microseconds(600), "median \(median)")
    }
}
