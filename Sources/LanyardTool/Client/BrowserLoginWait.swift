import ArgumentParser
import CLinux
import Glibc
import LanyardClient
import LanyardConfiguration
import LanyardFoundations

/// Waits for a login that a user completes in a browser: shows where, asks Lanyard for the result, and hands over what the browser brings
/// back. A signal ends the login: nothing is left of it.
struct BrowserLoginWait {
    private let name: String
    private let session: AdminSession
    private let listener: RedirectListener?
    private let opensBrowser: Bool
    private let signals: CInt

    /// - Parameter listener: for a login by authorization code.
    init(of name: String, session: AdminSession, listener: RedirectListener?, opensBrowser: Bool) {
        self.name = name
        self.session = session
        self.listener = listener
        self.opensBrowser = opensBrowser
        let numbers = [SIGINT, SIGTERM, SIGHUP]
        // Without a descriptor, as when there is none left, a signal ends the command as ever.
        signals = lanyard_hold_signals(numbers, CInt(numbers.count))
    }

    /// The user that is logged in.
    ///
    /// - Parameter login: the response that has begun the login.
    func result(_ login: JSONValue) throws -> JSONValue {
        guard let id = login["id"]?.string, id.utf8.count == 16 else { throw session.report(.notAdminAPI(status: 202)) }
        let path = AdminSession.path(name) + "/login/" + id
        try show(login, path)
        var current = login
        var shown = Notice.minutesLeft(.max)
        while true {
            switch current["status"]?.string {
            case "done": return current["user"] ?? .null
            case "failed":
                guard let problem = current["problem"].flatMap(ReceivedProblem.init) else {
                    throw session.report(.notAdminAPI(status: 200))
                }
                throw session.report(.problem(problem))
            default: break
            }
            if let notice = Notice(current), notice.isNews(after: shown) {
                Report.error(notice.text)
                shown = notice
            }
            let pause = min(max(current["interval"]?.integer ?? 1, 1), 60)
            if let query = try wait(Duration.seconds(pause), path) {
                current = try complete(path, query)
            } else {
                current = try session.json(of: session.call("GET", path))
            }
        }
    }

    // MARK: What is shown

    /// On standard error: standard output has the result alone.
    private func show(_ login: JSONValue, _ path: String) throws {
        if let uri = login["authorization_uri"]?.string {
            let service = try address(uri, path)
            guard let listener else { throw session.report(.notAdminAPI(status: 202)) }
            let begin = listener.offer(service.text)
            let isOpened = opensBrowser && Browser.open(begin)
            var lines: [OperatorText] = [
                isOpened ? "Log in with the browser that opens, or open:" : "Open in a browser on this machine:",
                OperatorText(line: "  " + begin),
                OperatorText(line: "It works once, and leads to \(service.authority)."),
            ]
            if !isOpened {
                let port = listener.port
                lines.append(
                    OperatorText(line: "Over SSH, forward that port first: ssh -L \(port):127.0.0.1:\(port) HOST"))
            }
            return Report.error(OperatorText(lines))
        }
        let uri = try address(login["verification_uri"]?.string ?? "", path).text
        let complete = try login["verification_uri_complete"]?.string.map { try address($0, path).text }
        var lines = [
            OperatorText(line: "Open \(uri) on any device, and type the code:"),
            OperatorText(line: "  " + (login["user_code"]?.string ?? "")),
        ]
        if let complete { lines.append(OperatorText(line: "or open \(complete)")) }
        Report.error(OperatorText(lines))
        if isatty(STDERR_FILENO) == 1, let code = QRCode(complete ?? uri) {
            Report.error(code.text(columns: Self.columns(of: STDERR_FILENO)))
        }
    }

    /// An address that a user may open. With another one the login ends at Lanyard, too.
    private func address(_ uri: String, _ path: String) throws -> WebAddress {
        if let address = WebAddress(uri) { return address }
        do throws(AdminCallError) { _ = try session.client.call("DELETE", path) } catch {
            // It ends by itself after some minutes.
        }
        throw CommandFailure.failed(
            "the identity service names an address to open that is no http or https URL, so the login was ended",
            "compare the endpoints of the identity with the server's documentation: lanyard check --online",
            exitCode: 1)
    }

    /// The width of a terminal; nil: unknown.
    private static func columns(of terminal: CInt) -> Int? {
        var size = winsize()
        return ioctl(terminal, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0 ? Int(size.ws_col) : nil
    }

    // MARK: Waiting

    /// Waits for the browser, a signal or the time.
    ///
    /// - Returns: the query that the browser has brought back; nil: none yet.
    private func wait(_ time: Duration, _ path: String) throws -> RedirectListener.Visit? {
        let end = ContinuousClock.now + time
        while true {
            var polled = ([signals] + (listener?.descriptors ?? [])).map {
                pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
            }
            let left = end - ContinuousClock.now
            guard left > .zero else { return nil }
            let milliseconds = CInt(
                clamping: left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1)
            guard poll(&polled, nfds_t(polled.count), milliseconds) > 0 else { continue }
            let number = polled[0].revents == 0 ? 0 : lanyard_next_signal(signals)
            if number != 0 {
                cancel(path)
                throw ExitCode(128 + number)
            }
            let visit = listener?.visit()
            for notice in listener?.takeNotices() ?? [] { Report.error(notice) }
            if let visit { return visit }
        }
    }

    /// Ends the login at Lanyard. If Lanyard is gone, so is the login. One that the user has just confirmed is not ended.
    private func cancel(_ path: String) {
        do throws(AdminCallError) {
            _ = try session.client.call("DELETE", path)
        } catch {
            if case .problem = error {
                return Report.error("the login has ended already, or is just being stored; lanyard users shows which")
            }
        }
        Report.error("the login was ended; nothing was changed")
    }

    /// Hands over the query. The query of another login leaves this one as it is.
    private func complete(_ path: String, _ visit: RedirectListener.Visit) throws -> JSONValue {
        var body = RequestBody()
        body.add("query", visit.query)
        do throws(AdminCallError) {
            let login = try session.client.json("POST", path, body: body.seal())
            visit.respond(.accepted)
            return login
        } catch {
            visit.respond(.refused)
            guard case .problem(let problem) = error, problem.name == "invalid-value" else {
                throw session.report(error)
            }
            return try session.json(of: session.call("GET", path))
        }
    }
}

/// What the command says while it waits.
private enum Notice: Equatable {
    case minutesLeft(Int)
    /// The address cannot be opened any more. A user who has opened it in time may still complete the login.
    case addressEnded
    /// The session takes the tokens.
    case finishing

    /// nil: the login has not shown its address yet, or it has ended.
    init?(_ login: JSONValue) {
        if login["status"]?.string == "finishing" {
            self = .finishing
        } else {
            guard let end = login["expires_at"]?.time else { return nil }
            let minutes = (max(0, Int((end - .now).inSeconds)) + 59) / 60
            self = minutes > 0 ? .minutesLeft(minutes) : .addressEnded
        }
    }

    /// Minutes that a clock has gained are not shown.
    func isNews(after former: Notice) -> Bool {
        switch (former, self) {
        case (.minutesLeft(let before), .minutesLeft(let now)): now < before
        case (.minutesLeft, .addressEnded), (.minutesLeft, .finishing), (.addressEnded, .finishing): true
        case (.addressEnded, .minutesLeft), (.addressEnded, .addressEnded), (.finishing, .minutesLeft),
            (.finishing, .addressEnded), (.finishing, .finishing):
            false
        }
    }

    var text: OperatorText {
        switch self {
        case .minutesLeft(let minutes): OperatorText(line: "waiting; \(minutes) min left, Ctrl-C ends the login")
        case .addressEnded: "waiting; the time to open the address has ended, Ctrl-C ends the login"
        case .finishing: "confirmed; waiting for the session to begin"
        }
    }
}

/// The operator's browser.
enum Browser {
    /// Starts it.
    ///
    /// - Parameter uri: every local user can read it in the process list.
    /// - Returns: false: there is none to start, such as on a machine without a screen.
    static func open(_ uri: String) -> Bool {
        let environment = ProcessEnvironment.all()
        guard WebAddress(uri) != nil else { return false }
        guard environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil else { return false }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The signals that this command waits for are not held in the browser, and Ctrl-C is not the browser's.
        var held = sigset_t()
        sigemptyset(&held)
        posix_spawnattr_setsigmask(&attributes, &held)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP))
        // Its words would stand between those of the command.
        for descriptor in 0...2 { posix_spawn_file_actions_addopen(&actions, CInt(descriptor), "/dev/null", O_RDWR, 0) }
        let words: [UnsafeMutablePointer<CChar>?] = ["xdg-open", uri].map { (word: String) in strdup(word) }
        defer { for word in words { free(word) } }
        var process = pid_t()
        return posix_spawnp(&process, "xdg-open", &actions, &attributes, words + [nil], environ) == 0
    }
}
