import LanyardConfiguration
import LanyardFoundations

/// A key of `lanyard top`.
package enum TopKey: Equatable, Sendable {
    case up, down, next, escape
    case character(Character)

    /// The keys that a terminal has sent (ECMA-48 §5.4; DEC's cursor keys).
    package static func read(_ bytes: some Collection<UInt8>) -> [TopKey] {
        var keys: [TopKey] = []
        var rest = Array(bytes)[...]
        while let byte = rest.popFirst() {
            guard byte == 0x1b else {
                if byte == 0x09 { keys.append(.next) } else { keys.append(.character(Character(Unicode.Scalar(byte)))) }
                continue
            }
            guard rest.first == UInt8(ascii: "[") || rest.first == UInt8(ascii: "O") else {
                keys.append(.escape)
                continue
            }
            rest.removeFirst()
            // Parameters and intermediate bytes come before the final one.
            while let next = rest.first, !(0x40...0x7e).contains(next) { rest.removeFirst() }
            switch rest.popFirst() {
            case UInt8(ascii: "A")?: keys.append(.up)
            case UInt8(ascii: "B")?: keys.append(.down)
            case _: break
            }
        }
        return keys
    }
}

/// What `lanyard top` does beside showing.
package enum TopAction: Equatable, Sendable {
    /// A call of the admin API that is made on behalf of a user.
    case refresh(String), logIn(String), use(String)
    case setLogLevel(String)
    /// Shows the log of this route from now on.
    case follow(String)
    case quit
}

/// `lanyard top`: which user and which route are chosen, and the screen. Pure: keys and reports go in, actions and lines come out.
package struct TopScreen: Sendable {
    /// The size of the terminal.
    package struct Size: Equatable, Sendable {
        package var columns: Int
        package var rows: Int

        package init(columns: Int, rows: Int) {
            self.columns = columns
            self.rows = rows
        }
    }

    private static let keys =
        "up/down user, r refresh, l log in, u use, d log level, f log of a route, q quit"
    private static let followKeys = "tab next route, f or esc back, d log level, q quit"

    /// nil: Lanyard has not responded to the latest call.
    package private(set) var report: StatusReport?
    /// Shown below the tables: the result of the latest action, or why there is no report.
    package var message = ""
    /// How long the present look lasts; nil: it has just begun.
    package var secondsWithoutResponse: Int?
    private var hasLooked = false
    /// The level of the log; nil: unknown.
    package var logLevel: String?
    /// Of the followed route.
    package var logLines: [String] = []
    private var selectedUser: String?
    /// nil: no log is shown.
    package private(set) var followedRoute: String?

    /// The reports may lack users.
    private let choosesUsers: Bool

    /// - Parameter choosesUsers: the reports may lack users.
    package init(choosesUsers: Bool = false) { self.choosesUsers = choosesUsers }

    /// Takes the next status.
    package mutating func update(_ report: StatusReport?) {
        self.report = report
        hasLooked = true
        guard let report else { return }
        let names = report.users.map(\.name)
        if selectedUser.map(names.contains) != true { selectedUser = report.activeUser ?? names.first }
        if let followedRoute, !report.activity.routes.contains(where: { $0.name == followedRoute }) {
            self.followedRoute = nil
        }
    }

    // MARK: Keys

    /// What a key does; nil: nothing, or it changes the screen only.
    package mutating func press(_ key: TopKey) -> TopAction? {
        switch key {
        case .character("q"): return .quit
        case .character("d"): return .setLogLevel(logLevel == "debug" ? "" : "debug")
        case .up, .character("k"): select(-1)
        case .down, .character("j"): select(1)
        case .character("f"), .escape:
            if followedRoute != nil || key == .escape {
                followedRoute = nil
                logLines = []
            } else {
                return follow(after: nil)
            }
        case .next: return follow(after: followedRoute)
        case .character("r"): return selectedUser.map { .refresh($0) }
        case .character("l"): return selectedUser.map { .logIn($0) }
        case .character("u"): return selectedUser.map { .use($0) }
        case .character: break
        }
        return nil
    }

    private mutating func select(_ step: Int) {
        guard let names = report?.users.map(\.name), !names.isEmpty else { return }
        let place = selectedUser.flatMap(names.firstIndex) ?? 0
        selectedUser = names[min(max(place + step, 0), names.count - 1)]
    }

    private mutating func follow(after route: String?) -> TopAction? {
        guard let names = report?.activity.routes.map(\.name), !names.isEmpty else { return nil }
        let next = route.flatMap(names.firstIndex).map { ($0 + 1) % names.count } ?? 0
        followedRoute = names[next]
        logLines = []
        return .follow(names[next])
    }

    // MARK: The screen

    /// The lines of the whole terminal: as many as it has rows, none longer than its columns.
    package func lines(_ size: Size, now: WallTime, usesColour: Bool) -> [String] {
        let delay = secondsWithoutResponse.map { "Lanyard has not responded for \($0) s" }
        let footer = [delay ?? message, followedRoute == nil ? Self.keys : Self.followKeys]
            .flatMap { footerLines(ConfigurationText.line($0), size) }
        let room = max(size.rows - footer.count, 1)
        var body = content(room, size.columns, now: now, usesColour: usesColour)
            .map { ScreenLine.cut($0, to: size.columns) }
        if body.count > room {
            let hidden = body.count - room + 1
            body =
                body.prefix(room - 1) + [
                    ScreenLine.cut("... \(hidden) more lines: enlarge the terminal", to: size.columns)
                ]
        }
        body += Array(repeating: "", count: room - body.count)
        return body + footer
    }

    /// At most three lines of a text. On a terminal with few rows the text is one line.
    private func footerLines(_ text: String, _ size: Size) -> [String] {
        guard size.rows >= Self.wrappedRowsMin, size.columns >= Self.wrappedColumnsMin else {
            return [ScreenLine.cut(text, to: size.columns)]
        }
        return Array(WrappedLine.lines(of: text, columns: size.columns, indent: 0).prefix(3))
    }

    private static let wrappedRowsMin = 8
    /// Users, and routes, that are shown on any terminal.
    private static let rowsMin = 8
    private static let wrappedColumnsMin = 20

    /// A line of the log without what is the same in all lines of a route: `12:00:03 info request method=GET path=/a status=200`.
    private static func shortened(_ line: String) -> String {
        var buffer = SecretBuffer(capacity: line.utf8.count)
        buffer.append(line)
        guard case .object(let members)? = JSONValue.read(buffer.seal()) else { return line }
        let json = JSONValue.object(members)
        let time = json["time"]?.string.map { String($0.dropFirst(11).prefix(8)) } ?? ""
        let rest = members.filter { !["time", "level", "msg", "event", "route", "request_id"].contains($0.name) }
        let values = rest.map { member in
            let value = member.value.string ?? JSONLayout.text(member.value).lines.joined()
            return "\(member.name)=\(value)"
        }
        return ([time, json["level"]?.string ?? "", json["msg"]?.string ?? ""] + values).joined(separator: " ")
    }

    private func content(_ room: Int, _ width: Int, now: WallTime, usesColour: Bool) -> [String] {
        let columns = max(width, Self.wrappedColumnsMin)
        guard let report else { return [hasLooked ? "no Lanyard responds" : "asking the running Lanyard"] }
        guard let route = followedRoute else {
            return StatusScreen.text(
                report, now: now, selectedUser: selectedUser, usesColour: usesColour, columns: columns,
                rowsMax: max(room / 3, Self.rowsMin), choosesUsers: choosesUsers
            ).lines
        }
        let verdict = StatusScreen.verdict(
            report, now: now, usesColour: usesColour, columns: columns, isFirstAlone: true
        ).lines
        let heading = WrappedLine.lines(
            of: "log of route \(route), at level \(logLevel ?? "-"); requests that succeed have a line with log.access",
            columns: columns)
        let lines = logLines.flatMap {
            WrappedLine.lines(of: ConfigurationText.line(Self.shortened($0)), columns: columns)
        }
        let above = verdict + [""] + heading
        return above + lines.suffix(max(room - above.count, 0))
    }
}

/// A line of a terminal with styles.
enum ScreenLine {
    /// The beginning of the line with at most `columns` characters. Escape sequences have no width, and a style that was cut off ends.
    static func cut(_ line: String, to columns: Int) -> String {
        guard line.count > columns else { return line }
        var (text, width, isStyled) = ("", 0, false)
        var rest = line[...]
        while let character = rest.first {
            if character == "\u{1b}" {
                let end = rest.firstIndex(of: "m") ?? rest.index(before: rest.endIndex)
                text += rest[...end]
                isStyled = true
                rest = rest[rest.index(after: end)...]
                continue
            }
            guard width < columns else { return isStyled ? text + "\u{1b}[0m" : text }
            text.append(character)
            width += 1
            rest.removeFirst()
        }
        return text
    }
}
