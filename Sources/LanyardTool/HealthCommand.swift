import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// `lanyard health`: probes a running Lanyard, for images without curl. Exit 0 or 1.
struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Ask a running Lanyard whether it lives, or is ready.",
        discussion: """
            Exit code 0 or 1. It says what is wrong, with a warning also what does not change the exit code (store, clock, a \
            refresh that fails). When all is well it says so on a terminal only.
            """)

    @Flag(help: "Ask /readyz in place of /livez.")
    var ready = false

    @Flag(help: "Print one JSON document, for programs.")
    var json = false

    @OptionGroup(title: "Running Lanyard") var health: HealthOptions

    func run() throws {
        // Not 78: probes know 0 and 1 only.
        let address = try health.address(exitCode: 1)
        let probe = HealthProbe(address, ready ? "/readyz" : "/livez", within: .seconds(2))
        if json {
            JSONDocument.print { probe.write(into: &$0) }
            if !probe.isGood { throw ExitCode.failure }
            return
        }
        guard probe.isGood else {
            Report.error(probe.failure())
            throw ExitCode.failure
        }
        if !probe.warnings.lines.isEmpty { Report.error(probe.warnings) }
        // A probe of an orchestrator says nothing when all is well.
        if isatty(STDOUT_FILENO) == 1 { Report.output("Lanyard at \(address) is \(ready ? "ready" : "live").") }
    }
}

/// Where a command finds the health listener of the running Lanyard.
struct HealthOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The health listener: HOST:PORT or unix:/PATH. (default: that of --config, else of LANYARD_HEALTH_ADDRESS or "
                + "LANYARD_CONFIG, else 127.0.0.1:7401)",
            valueName: "address"))
    var health: String?

    @Option(
        help: ArgumentHelp("The configuration that names the health listener.", valueName: "path"),
        completion: .file())
    var config: String?

    func validate() throws {
        if health != nil, config != nil { throw ValidationError("--health and --config are two ways to say the same") }
        if let health, (try? AddressText.listenAddress(health)) == nil {
            throw ValidationError("--health: \"\(health)\" is not HOST:PORT, [V6]:PORT or unix:/PATH")
        }
    }

    /// - Parameter exitCode: if the configuration names no address, or cannot be read.
    func address(exitCode: Int32) throws -> ListenerSettings.Address {
        if let health { return try AddressText.listenAddress(health) }
        let arguments = config.map { ["--config", $0] } ?? []
        switch Configuration.healthEndpoint(arguments: arguments, environment: ProcessEnvironment.all()) {
        case .address(let address): return address
        case .none:
            throw CommandFailure.failed(
                "the configuration names no health listener that can be asked",
                "set health.address and restart Lanyard, or give --health its address", exitCode: exitCode)
        case .unknown(let diagnostics):
            Report.diagnostics(diagnostics)
            throw ExitCode(exitCode)
        }
    }
}
