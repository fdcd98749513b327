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

    @OptionGroup(title: "Users and routes") var users: UserFilterOptions
    @OptionGroup var routes: RouteFilterOptions

    @Option(help: ArgumentHelp("Rows of users, and of routes. (default: 50 on a terminal)", valueName: "number"))
    var limit: Int?

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    private var query: StatusQuery {
        var query = users.query
        query.route = routes.route
        // On a terminal all are looked at, and those with an error come first.
        if output.json { query.limit = limit }
        return query
    }

    func validate() throws {
        try UserFilterOptions.check(limit)
        if interval.duration < .milliseconds(100) { throw ValidationError("--interval is 100ms at least") }
    }

    func run() throws {
        let session = try admin.session(for: output)
        let path = query.path("/v1/status")
        guard watch else { return try session.show("GET", path, as: output, text: text) }
        let redraws = Terminal.isCapable && !output.json
        while Report.isOutputWhole {
            do {
                let response = try session.call("GET", path)
                if redraws { Report.clearScreen() }
                if output.json {
                    try session.show(response)
                } else {
                    let text = try text(session.json(of: response))
                    Report.output(redraws ? text : OperatorText([text, ""]))
                }
            } catch let code as ExitCode where code == ExitCode(69) {
                // A restart is what an operator may be waiting for. The error is on standard error.
            }
            interval.duration.pass()
        }
    }

    private func text(_ json: JSONValue) throws -> OperatorText {
        guard let report = StatusReport(json) else {
            throw CommandFailure.failed(
                "the response is no status of Lanyard",
                "give --admin the address that admin.address of the running Lanyard names", exitCode: 69)
        }
        return StatusScreen.text(
            report, now: .now, usesColour: Colour.isUsed, columns: Terminal.outputColumns,
            rowsMax: limit ?? (Terminal.outputColumns == nil ? nil : Self.rowsOfTerminal),
            choosesUsers: query.choosesUsers)
    }

    /// More would hide what comes before them.
    private static let rowsOfTerminal = 50
}

/// Which users a command shows.
struct UserFilterOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Users whose names contain this.", valueName: "text"))
    var user: String?

    @Option(
        help: ArgumentHelp(
            "Users of this state or with this session, such as logged_out or refused.", valueName: "state"))
    var state: String?

    var query: StatusQuery {
        var query = StatusQuery()
        (query.user, query.state) = (user, state)
        return query
    }

    /// - Throws: `ValidationError` for a number of rows that cannot be.
    static func check(_ limit: Int?) throws {
        guard limit.map({ 1...10_000 ~= $0 }) ?? true else {
            throw ValidationError("--limit is a whole number from 1 to 10000")
        }
    }
}

/// Which routes a command shows.
struct RouteFilterOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Routes whose names contain this.", valueName: "text"))
    var route: String?
}

/// `lanyard users`: the users that this device knows.
struct UsersCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "List the users that this device knows.")

    @OptionGroup(title: "Users") var filter: UserFilterOptions

    @Option(help: ArgumentHelp("Users of this page at most; the order is that of their names.", valueName: "number"))
    var limit: Int?

    @Option(help: ArgumentHelp("The last user of the page before.", valueName: "name"))
    var after: String?

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions
    @OptionGroup(title: "Output") var output: OutputOptions

    func validate() throws { try UserFilterOptions.check(limit) }

    func run() throws {
        var query = filter.query
        (query.limit, query.after) = (limit, after)
        try admin.session(for: output).show("GET", query.path("/v1/users"), as: output) { json in
            let users = UserReport.list(json)
            let table = UserTable.text(
                users, choosesUsers: query.choosesUsers, now: .now, usesColour: Colour.isUsed,
                columns: Terminal.outputColumns)
            guard let next = json["users_next"]?.string else { return table }
            return OperatorText([
                table, OperatorText(line: "... more of \(json["users_total"]?.integer ?? 0): --after \(next)"),
            ])
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
