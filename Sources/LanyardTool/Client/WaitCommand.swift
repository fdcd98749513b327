import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// `lanyard wait`: waits until a running or starting Lanyard is ready, for scripts and start-up orders.
///
/// Exit 0 in time, 75 if the time is over.
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
        name: .customLong("max"), help: ArgumentHelp("How long to wait, such as 500ms or 5m.", valueName: "duration"))
    var limit = DurationArgument(.seconds(30))

    @OptionGroup(title: "Running Lanyard") var health: HealthOptions

    /// Between two probes.
    private static let interval = Duration.milliseconds(200)

    func run() throws {
        let address = try health.address(exitCode: 78)
        let start = ContinuousClock.now
        while true {
            let left = limit.duration - (ContinuousClock.now - start)
            let probe = HealthProbe(address, goal.path, within: min(.seconds(2), max(left, .milliseconds(100))))
            if probe.isGood { return }
            let pause = min(Self.interval, limit.duration - (ContinuousClock.now - start))
            guard pause > .zero else {
                Report.error(probe.messages)
                Report.error("error: not \(goal.rawValue) within \(ConfigurationText.formatted(limit.duration))")
                throw ExitCode(75)
            }
            usleep(UInt32(clamping: pause.components.attoseconds / 1_000_000_000_000))
        }
    }
}

/// `lanyard shutdown`: ends a running Lanyard as SIGTERM does, with exit code 0.
struct ShutdownCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "shutdown", abstract: "End a running Lanyard: it finishes its requests first.",
        discussion: "The command returns at once; the drain lasts up to shutdown.drain_max.")

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        try admin.session().show("POST", "/v1/shutdown", as: output) { _ in "Lanyard is stopping." }
    }
}
