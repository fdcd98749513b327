import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// `lanyard wait`: waits until a running or starting Lanyard is ready, for scripts and start-up orders.
///
/// Exit 0 in time, 75 after the timeout.
struct WaitCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait", abstract: "Wait until Lanyard is ready, lives or has started.",
        discussion: """
            Exit code 0 in time, else 75. ready: requests would carry a valid token (/readyz). live: the process responds \
            (/livez). startup: the first login has succeeded (/startupz). Lanyard may start later than this command.
            """)

    /// What is waited for.
    enum Goal: String, ExpressibleByArgument, CaseIterable {
        case ready, live, startup

        var path: String {
            switch self {
            case .ready: "/readyz"
            case .live: "/livez"
            case .startup: "/startupz"
            }
        }
    }

    @Option(name: .customLong("for"), help: ArgumentHelp("What to wait for.", valueName: "goal"))
    var goal = Goal.ready

    @Option(
        name: [.customLong("max"), .customLong("timeout")],
        help: ArgumentHelp("How long to wait, such as 500ms or 5m.", valueName: "duration"))
    var limit = DurationArgument(.seconds(30))

    @Flag(help: "Print one JSON document at the end, for programs.")
    var json = false

    @OptionGroup(title: "Running Lanyard") var health: HealthOptions

    /// Between two probes.
    private static let interval = Duration.milliseconds(200)

    func run() throws {
        let address = try health.address(exitCode: 78)
        let start = ContinuousClock.now
        var missing = (what: "", since: start)
        while true {
            let left = limit.duration - (ContinuousClock.now - start)
            let probe = HealthProbe(address, goal.path, within: min(.seconds(2), max(left, .milliseconds(100))))
            let now = ContinuousClock.now
            let pause = min(Self.interval, limit.duration - (now - start))
            guard !probe.isGood, pause > .zero else { return try end(probe, after: now - start) }
            if probe.summary != missing.what { missing = (probe.summary, now) }
            let (since, rest) = ((now - missing.since).components.seconds, (limit.duration - (now - start)).components)
            Report.progress(
                "waiting until \(goal.rawValue): \(missing.what), for \(since) s; \(rest.seconds) s left")
            pause.pass()
        }
    }

    private func end(_ probe: HealthProbe, after time: Duration) throws {
        Report.eraseProgress()
        if json {
            JSONDocument.print { document in
                document.member("goal", goal.rawValue)
                document.key("waited_seconds")
                document.number((time.inSeconds * 1000).rounded() / 1000)
                probe.write(into: &document)
            }
        } else if !probe.isGood {
            Report.error(probe.failure("not \(goal.rawValue) within \(ConfigurationText.formatted(limit.duration))"))
        }
        if !probe.isGood { throw ExitCode(75) }
    }
}

/// `lanyard shutdown`: ends a running Lanyard as SIGTERM does, with exit code 0.
struct ShutdownCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shutdown", abstract: "End a running Lanyard: it finishes its requests first.",
        discussion: """
            The command returns at once; the drain lasts up to shutdown.drain_max. With --wait it returns when the running \
            Lanyard has ended, or with exit code 75 when the time has passed.
            """)

    @Flag(help: "Wait for its end.")
    var wait = false

    @Option(
        name: [.customLong("max"), .customLong("timeout")],
        help: ArgumentHelp("How long to wait, such as 500ms or 5m.", valueName: "duration"))
    var limit = DurationArgument(.seconds(120))

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    /// Between two looks.
    private static let interval = Duration.milliseconds(200)

    func run() throws {
        let session = try admin.session(for: output)
        let response = try session.call("POST", "/v1/shutdown")
        if output.json {
            try session.show(response)
        } else if !wait {
            Report.output("Lanyard is stopping.")
        }
        if wait { try waitForEnd(session.client.limited(to: .seconds(2))) }
    }

    /// The admin API is the last part that ends.
    private func waitForEnd(_ client: AdminClient) throws {
        let end = ContinuousClock.now + limit.duration
        var progress = "stopping"
        while true {
            do throws(AdminCallError) {
                if let stop = try client.status().stop {
                    let count = stop.clientConnectionCount
                    progress =
                        "stopping: \(count) \(count == 1 ? "request" : "requests") in flight, \(stop.secondsLeft) s left"
                }
            } catch {
                if case .noResponse(.notConnected(ECONNREFUSED)) = error { break }
                if case .noResponse(.notConnected(ENOENT)) = error { break }
            }
            guard ContinuousClock.now < end else {
                throw CommandFailure.failed(
                    "Lanyard has not ended within \(ConfigurationText.formatted(limit.duration)) (\(progress))",
                    "wait longer with --max, or look at its requests with lanyard status", exitCode: 75)
            }
            Report.progress(progress)
            Self.interval.pass()
        }
        Report.eraseProgress()
        if !output.json { Report.output("Lanyard has ended.") }
    }
}
