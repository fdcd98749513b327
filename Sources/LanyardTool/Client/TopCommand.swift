import ArgumentParser
import Dispatch
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// `lanyard top`: the status on a whole terminal, live, with keys.
struct TopCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top", abstract: "Watch a running Lanyard, and act on its users with keys.",
        discussion: """
            Keys: up and down (or k and j) choose a user; r refreshes its token, l logs it in as configured, u makes it active. d \
            switches the log to debug and back. f shows the log of a route, tab that of the next one. q ends.
            """)

    @Option(help: ArgumentHelp("The time between two looks, such as 500ms.", valueName: "duration"))
    var interval = DurationArgument(.seconds(1))

    @OptionGroup(title: "Running Lanyard") var admin: AdminOptions

    func validate() throws {
        if interval.duration < .milliseconds(100) { throw ValidationError("--interval is 100ms at least") }
    }

    func run() throws {
        guard Terminal.isCapable, isatty(STDIN_FILENO) == 1 else {
            throw CommandFailure.usage(
                "top needs a terminal that shows escape sequences", "use lanyard status --watch, or set TERM")
        }
        let client = try admin.session().client
        guard let terminal = FullScreen() else {
            throw CommandFailure.usage("the terminal cannot be used", "use lanyard status --watch")
        }
        defer { terminal.restore() }
        TopLoop(client, terminal, interval: interval.duration).run()
    }
}

/// Shows the screen again and again, and does what keys ask for. Calls that may last are made on another thread.
private final class TopLoop {
    private let client: AdminClient
    private let terminal: FullScreen
    private let interval: Duration
    private var screen = TopScreen()
    /// What the latest call for a user has come to. The thread of the call writes it.
    private final class CallResult: Sendable {
        let text = Guarded<String?>(nil)
    }

    private let result = CallResult()

    init(_ client: AdminClient, _ terminal: FullScreen, interval: Duration) {
        self.client = client
        self.terminal = terminal
        self.interval = interval
    }

    func run() {
        var nextLook = ContinuousClock.now
        while Report.isOutputWhole {
            if ContinuousClock.now >= nextLook {
                look()
                nextLook = ContinuousClock.now + interval
            }
            if let text = result.text.withLock({ $0.take() }) { screen.message = text }
            terminal.show(screen.lines(terminal.size, now: .now, usesColour: Colour.isUsed))
            for key in TopKey.read(terminal.keys(within: .milliseconds(100))) {
                guard let action = screen.press(key) else { continue }
                if action == .quit { return }
                perform(action)
                nextLook = ContinuousClock.now
            }
        }
    }

    private func look() {
        do throws(AdminCallError) {
            screen.update(try client.status())
            screen.logLevel = try client.json("GET", "/v1/log-level")["level"]?.string
            if let route = screen.followedRoute {
                screen.logLines =
                    try client.json("GET", "/v1/log/\(AdminClient.segment(route))")["lines"]?.elements
                    .compactMap(\.string) ?? []
            }
        } catch {
            screen.update(nil)
            screen.message = Self.text(error)
        }
    }

    private func perform(_ action: TopAction) {
        switch action {
        case .quit, .follow: break
        case .refresh(let name): call("refresh of \(name)", "POST", AdminSession.path(name) + "/refresh")
        case .logIn(let name): call("login of \(name)", "POST", AdminSession.path(name) + "/login")
        case .use(let name): call("switch to \(name)", "POST", AdminSession.path(name) + "/activate")
        case .setLogLevel(let level): setLogLevel(level)
        }
    }

    /// - Parameter level: empty: the configured one.
    private func setLogLevel(_ level: String) {
        do throws(AdminCallError) {
            let configured = try client.json("GET", "/v1/log-level")["configured"]?.string ?? "info"
            var body = JSONWriter()
            body.beginObject()
            body.key("level")
            body.string(level.isEmpty ? configured : level)
            body.endObject()
            let response = try client.json(
                "POST", "/v1/log-level", body: body.bytes.withUnsafeBytes { Secret(copying: $0) })
            screen.message = "the log level is \(response["level"]?.string ?? "-")"
        } catch {
            screen.message = Self.text(error)
        }
    }

    private func call(_ what: String, _ method: String, _ path: String) {
        screen.message = "\(what): in progress"
        let (client, result) = (client, result)
        DispatchQueue.global().async {
            let text: String
            do throws(AdminCallError) {
                _ = try client.call(method, path)
                text = "\(what): done"
            } catch {
                text = "\(what): \(Self.text(error))"
            }
            result.text.withLock { $0 = text }
        }
    }

    private static func text(_ error: AdminCallError) -> String {
        switch error {
        case .noResponse(let error): "no Lanyard responds: \(error.message)"
        case .problem(let problem): "\(problem.title): \(problem.detail) What to do: \(problem.remedy)"
        case .notAdminAPI(let status): "what responds is no admin API of Lanyard (status \(status))"
        }
    }
}
