import ArgumentParser
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// `lanyard status`: what a running Lanyard says of itself and its users.
struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show a running Lanyard and its users.",
        discussion: """
            The first line is "ready", or what is wrong and what to do: NOT READY if /readyz is 503, FAILING if requests fail \
            all the same, WARNING if nothing fails yet. With --json and --watch each status is one line.
            """)

    @Flag(help: "Show it again and again, until the command is interrupted.")
    var watch = false

    @Option(help: ArgumentHelp("The time between two looks of --watch, such as 500ms.", valueName: "duration"))
    var interval = DurationArgument(.seconds(2))

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func validate() throws {
        if interval.duration < .milliseconds(100) { throw ValidationError("--interval is 100ms at least") }
    }

    func run() throws {
        let session = try admin.session(for: output)
        guard watch else { return try session.show("GET", "/v1/status", as: output, text: Self.text) }
        let redraws = Terminal.isCapable && !output.json
        while Report.isOutputWhole {
            do {
                let response = try session.call("GET", "/v1/status")
                if redraws { Report.clearScreen() }
                if output.json {
                    try session.show(response)
                } else {
                    let text = try Self.text(session.json(of: response))
                    Report.output(redraws ? text : OperatorText([text, ""]))
                }
            } catch let code as ExitCode where code == ExitCode(69) {
                // A restart is what an operator may be waiting for. The error is on standard error.
            }
            interval.duration.pass()
        }
    }

    private static func text(_ json: JSONValue) throws -> OperatorText {
        guard let report = StatusReport(json) else {
            throw CommandFailure.failed(
                "the response is no status of Lanyard",
                "give --admin the address that admin.address of the running Lanyard names", exitCode: 69)
        }
        return StatusScreen.text(
            report, now: .now, usesColour: Colour.isUsed, columns: Terminal.outputColumns)
    }
}

/// `lanyard users`: the users that this device knows.
struct UsersCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "List the users that this device knows.")

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func run() throws {
        try admin.session(for: output).show("GET", "/v1/users", as: output) { json in
            UserTable.text(
                UserReport.list(json), now: .now, usesColour: Colour.isUsed, columns: Terminal.outputColumns)
        }
    }
}

/// The terminal that standard output or standard error is.
enum Terminal {
    private static let defaultColumns = 80

    /// Standard output is one that interprets escape sequences.
    static var isCapable: Bool { isCapable(STDOUT_FILENO) }

    /// It interprets escape sequences. TERM is unset where nothing is known of the terminal, and `dumb` where it interprets none.
    static func isCapable(_ descriptor: CInt) -> Bool {
        let type = ProcessEnvironment.all()["TERM"] ?? ""
        return isatty(descriptor) == 1 && !type.isEmpty && type != "dumb"
    }

    /// Columns in which a screen is laid out; nil: standard output is no terminal, and its reader may want whole lines.
    static var outputColumns: Int? {
        isatty(STDOUT_FILENO) == 1 ? max(columns(of: STDOUT_FILENO), columnsMin) : nil
    }

    private static let columnsMin = 20

    /// As the terminal says; one that does not say it has 80.
    static func columns(of descriptor: CInt) -> Int {
        var size = winsize()
        return ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
            ? Int(size.ws_col) : defaultColumns
    }
}

/// Whether output is coloured: on a terminal that can show it, unless NO_COLOR is set (no-color.org).
enum Colour {
    static var isUsed: Bool { Terminal.isCapable && (ProcessEnvironment.all()["NO_COLOR"] ?? "").isEmpty }
}

extension Duration {
    /// Blocks the thread for so long.
    func pass() {
        usleep(UInt32(clamping: components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000))
    }
}

/// A duration on the command line, written as in the configuration: `500ms`, `90s`, `5m`.
struct DurationArgument: ExpressibleByArgument {
    let duration: Duration

    init(_ duration: Duration) { self.duration = duration }

    init?(argument: String) {
        guard let duration = ConfigurationText.duration(argument) else { return nil }
        self.duration = duration
    }

    var defaultValueDescription: String { ConfigurationText.formatted(duration) }
}
