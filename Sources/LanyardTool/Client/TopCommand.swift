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

    @OptionGroup(title: "Users and routes") var users: UserFilterOptions
    @OptionGroup var routes: RouteFilterOptions
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
        var query = users.query
        query.route = routes.route
        TopLoop(client, query, terminal, interval: interval.duration).run()
    }
}

/// Shows the screen again and again, and does what keys ask for. Each call is made on another thread, so that keys work while it lasts.
private final class TopLoop {
    /// What one look at the running Lanyard has found.
    private struct Look: Sendable {
        /// nil: there is no response.
        var report: StatusReport?
        var error: String?
        var logLevel: String?
        /// Of this route; nil: no log was asked for.
        var route: String?
        var logLines: [String] = []
    }

    private struct Outcome: Sendable {
        var text: String
        /// That the call has set; nil: it has set none.
        var logLevel: String?
    }

    /// What the threads of calls leave for the loop.
    private final class Results: Sendable {
        let look = Guarded<Look?>(nil)
        /// What the latest call of a key has come to.
        let outcome = Guarded<Outcome?>(nil)
    }

    /// A look that lasts longer is told.
    private static let slowLook = Duration.seconds(2)

    private let client: AdminClient
    /// Which users and routes it shows.
    private let query: StatusQuery
    private let terminal: FullScreen
    private let interval: Duration
    private let results = Results()
    private var screen: TopScreen
    /// Of the look that has no result yet.
    private var lookStart: ContinuousClock.Instant?
    /// When a call has set the log level. A look that began before may have the former one.
    private var levelSetAt = ContinuousClock.now

    init(_ client: AdminClient, _ query: StatusQuery, _ terminal: FullScreen, interval: Duration) {
        self.client = client
        self.query = query
        screen = TopScreen(choosesUsers: query.choosesUsers)
        self.terminal = terminal
        self.interval = interval
    }

    func run() {
        var nextLook = ContinuousClock.now
        while Report.isOutputWhole {
            if let look = results.look.withLock({ $0.take() }) { use(look) }
            if let outcome = results.outcome.withLock({ $0.take() }) { use(outcome) }
            let now = ContinuousClock.now
            if lookStart == nil, now >= nextLook {
                beginLook()
                nextLook = now + interval
            }
            let delay = lookStart.map { now - $0 } ?? .zero
            screen.secondsWithoutResponse = delay > Self.slowLook ? Int(delay.components.seconds) : nil
            terminal.show(screen.lines(terminal.size, now: .now, usesColour: Colour.isUsed))
            for key in TopKey.read(terminal.keys(within: .milliseconds(100))) {
                guard let action = screen.press(key) else { continue }
                if action == .quit { return }
                perform(action)
                nextLook = .now
            }
        }
    }

    // MARK: Looks

    private func beginLook() {
        lookStart = .now
        let (client, query, results, route) = (client, query, results, screen.followedRoute)
        DispatchQueue.global().async {
            let look = Self.look(client, query, route)
            results.look.withLock { $0 = look }
        }
    }

    private static func look(_ client: AdminClient, _ query: StatusQuery, _ route: String?) -> Look {
        var look = Look()
        do throws(AdminCallError) {
            look.report = try client.status(query)
            look.logLevel = try client.json("GET", "/v1/log-level")["level"]?.string
            guard let route else { return look }
            let log = try client.json("GET", "/v1/log/\(AdminClient.segment(route))")
            look.logLines = log["lines"]?.elements.compactMap(\.string) ?? []
            look.route = route
        } catch {
            look.report = nil
            look.error = text(error)
        }
        return look
    }

    private func use(_ look: Look) {
        if let lookStart, lookStart >= levelSetAt { screen.logLevel = look.logLevel }
        lookStart = nil
        screen.update(look.report)
        if let error = look.error { screen.message = error }
        // Another route may have been chosen since.
        if look.route != nil, look.route == screen.followedRoute { screen.logLines = look.logLines }
    }

    // MARK: Actions

    private func use(_ outcome: Outcome) {
        screen.message = outcome.text
        guard let level = outcome.logLevel else { return }
        (screen.logLevel, levelSetAt) = (level, .now)
    }

    private func perform(_ action: TopAction) {
        switch action {
        case .quit, .follow: break
        case .refresh(let name): callForUser("refresh of \(name)", AdminSession.path(name) + "/refresh")
        case .logIn(let name): callForUser("login of \(name)", AdminSession.path(name) + "/login")
        case .use(let name): callForUser("switch to \(name)", AdminSession.path(name) + "/activate")
        case .setLogLevel(let level):
            call("log level") { client throws(AdminCallError) in try Self.setLogLevel(level, client) }
        }
    }

    private func callForUser(_ what: String, _ path: String) {
        call(what) { client throws(AdminCallError) in
            _ = try client.call("POST", path)
            return Outcome(text: "\(what): done")
        }
    }

    /// - Parameter body: makes the calls, and says what they came to. On another thread.
    private func call(
        _ what: String, _ body: @escaping @Sendable (AdminClient) throws(AdminCallError) -> Outcome
    ) {
        screen.message = "\(what): in progress"
        let (client, results) = (client, results)
        DispatchQueue.global().async {
            let outcome: Outcome
            do throws(AdminCallError) {
                outcome = try body(client)
            } catch {
                outcome = Outcome(text: "\(what): \(Self.text(error))")
            }
            results.outcome.withLock { $0 = outcome }
        }
    }

    /// - Parameter level: empty: the configured one.
    private static func setLogLevel(_ level: String, _ client: AdminClient) throws(AdminCallError) -> Outcome {
        let configured = try client.json("GET", "/v1/log-level")["configured"]?.string ?? "info"
        var body = RequestBody()
        body.add("level", level.isEmpty ? configured : level)
        let response = try client.json("POST", "/v1/log-level", body: body.seal())
        let set = response["level"]?.string
        return Outcome(text: "the log level is \(set ?? "-")", logLevel: set)
    }

    private static func text(_ error: AdminCallError) -> String {
        switch error {
        case .noResponse(let error): "no Lanyard responds: \(error.message)"
        case .problem(let problem): "\(problem.title): \(problem.detail) What to do: \(problem.remedy)"
        case .notAdminAPI(let status): "what responds is no admin API of Lanyard (status \(status))"
        }
    }
}
