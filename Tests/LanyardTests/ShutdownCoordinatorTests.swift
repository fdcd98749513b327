import Dispatch
import Glibc
import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import LanyardTelemetry
import Logging
import Synchronization
import Testing

@testable import Lanyard

/// The end of the program, before its loop has had a turn.
@Suite struct ShutdownCoordinatorTests {
    @Test("readiness is off as soon as the admin API's call has returned, before the response can arrive")
    func adminCall() throws {
        let log = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let path = try RequestPath(
            RequestPath.Settings(
                listeners: [], routes: [], limits: LimitSettings(), tokenWaitMax: .zero, loginRequiredStatus: 503),
            sockets: [], names: UserNames([]), shardCount: 1, source: SessionTokenSource(), log: log)
        var settings = ShutdownSettings()
        settings.drainMin = .seconds(60)
        let coordinator = try ShutdownCoordinator(
            settings, signals: OwnedDescriptor(taking: open("/dev/null", O_RDONLY | O_CLOEXEC)), path: path,
            verbosity: LogVerbosity(.info), log: log)
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
