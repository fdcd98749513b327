import Dispatch
import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging
import Synchronization
import TestSupport
import Testing

@testable import Lanyard

/// The end of the program.
@Suite struct ShutdownCoordinatorTests {
    /// What the coordinator has asked of the rest of the program.
    private final class Calls: Sendable {
        let begun = Guarded(0)
        let forced = Guarded(0)

        var events: ShutdownCoordinator.Events {
            .init(
                begin: { self.begun.withLock { $0 += 1 } }, hangUp: {}, force: { self.forced.withLock { $0 += 1 } })
        }
    }

    /// A coordinator without users that waits for `drain_min`, and the end of a pipe that takes what a signalfd would report.
    private func coordinator() throws -> (ShutdownCoordinator, signals: CInt) {
        let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let path = try RequestPath(
            RequestPath.Settings(
                listeners: [], routes: [], limits: LimitSettings(), tokenWaitMax: .zero, loginRequiredStatus: 503),
            sockets: [], names: UserNames([]), shardCount: 1, source: SessionTokenSource(), log: log)
        path.start()
        var settings = ShutdownSettings()
        settings.drainMin = .seconds(60)
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        return (
            try ShutdownCoordinator(
                settings, signals: OwnedDescriptor(taking: ends[0]), path: path, verbosity: LogVerbosity(.info),
                log: log),
            ends[1]
        )
    }

    private func send(_ number: CInt, to signals: CInt) {
        // signalfd_siginfo: 128 bytes, which begin with the number (signalfd(2)).
        var report = [UInt32](repeating: 0, count: 32)
        report[0] = UInt32(number)
        #expect(write(signals, report, 128) == 128)
    }

    @Test(
        "signals within 100 ms of the first one change nothing; a later one ends the process at once",
        arguments: [[SIGTERM, SIGTERM, SIGTERM], [SIGTERM, SIGINT, SIGINT], [SIGINT, SIGTERM, SIGTERM]])
    func repeated(_ numbers: [CInt]) throws {
        let (coordinator, signals) = try coordinator()
        defer { close(signals) }
        let (loop, calls) = (coordinator.loop, Calls())
        coordinator.start(calls.events)
        loop.freezeTime()
        send(numbers[0], to: signals)
        loop.settle()
        #expect(calls.begun.withLock { $0 } == 1)
        loop.pass(.milliseconds(99))
        send(numbers[1], to: signals)
        loop.settle()
        #expect(calls.forced.withLock { $0 } == 0 && !coordinator.isForced.load(ordering: .relaxed))
        // Counted from the first one: a key that stays pressed means the end.
        loop.pass(.milliseconds(1))
        send(numbers[2], to: signals)
        loop.settle()
        #expect(calls.begun.withLock { $0 } == 1 && calls.forced.withLock { $0 } == 1)
        #expect(coordinator.wait() == (numbers[0] == SIGINT ? 130 : 143))
    }

    @Test("a signal within 100 ms of the admin API's call does not cut what is in progress")
    func callAndSignal() throws {
        let (coordinator, signals) = try coordinator()
        defer { close(signals) }
        let (loop, calls) = (coordinator.loop, Calls())
        coordinator.start(calls.events)
        loop.freezeTime()
        coordinator.end()
        loop.settle()
        send(SIGTERM, to: signals)
        loop.settle()
        #expect(calls.begun.withLock { $0 } == 1 && calls.forced.withLock { $0 } == 0)
    }

    @Test("readiness is off as soon as the admin API's call has returned, before the response can arrive")
    func adminCall() throws {
        let (coordinator, signals) = try coordinator()
        defer { close(signals) }
        // What is posted waits until the queue is free.
        let (before, after) = coordinator.loop.queue.sync {
            let before = coordinator.isDraining.load(ordering: .relaxed)
            coordinator.end()
            return (before, coordinator.isDraining.load(ordering: .relaxed))
        }
        #expect(!before)
        #expect(after)
    }
}
