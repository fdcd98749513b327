import ArgumentParser
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// `lanyard health`: probes a running Lanyard, for images without curl. Exit 0 or 1.
struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Ask a running Lanyard whether it lives, or is ready.",
        discussion:
            "Without --health and --config the address is that of LANYARD_HEALTH_ADDRESS or LANYARD_CONFIG, else 127.0.0.1:7401."
    )

    @Flag(help: "Ask /readyz in place of /livez.")
    var ready = false

    @Option(help: ArgumentHelp("The health listener.", valueName: "host:port"))
    var health: String?

    @Option(help: ArgumentHelp("The configuration that names the health listener.", valueName: "path"))
    var config: String?

    func validate() throws {
        if health != nil, config != nil { throw ValidationError("--health and --config are two ways to say the same") }
        if let health, (try? AddressText.listenAddress(health)) == nil {
            throw ValidationError("--health: \"\(health)\" is not HOST:PORT, [V6]:PORT or unix:/PATH")
        }
    }

    func run() throws {
        switch try endpoint() {
        case .address(let address): try probe(address)
        case .none:
            Report.error("error: the configuration names no health listener that can be asked")
            throw ExitCode.failure
        case .unknown(let diagnostics):
            // Not 78: probes know 0 and 1 only.
            Report.diagnostics(diagnostics)
            throw ExitCode.failure
        }
    }

    private func probe(_ address: ListenerSettings.Address) throws {
        let path = ready ? "/readyz" : "/livez"
        switch HealthProbe.probe(address, path: path, within: .seconds(2)) {
        case .responded(status: 200, _): return
        case .responded(let status, let body):
            Report.error("\(path) of \(address): \(status)")
            if !body.isEmpty { Report.error(body) }
        case .failed(let message): Report.error("\(path) of \(address): \(message)")
        }
        throw ExitCode.failure
    }

    private func endpoint() throws -> HealthEndpoint {
        if let health { return .address(try AddressText.listenAddress(health)) }
        let arguments = config.map { ["--config", $0] } ?? []
        return Configuration.healthEndpoint(arguments: arguments, environment: ProcessEnvironment.all())
    }
}
