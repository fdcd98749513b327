import LanyardFoundations
import LanyardSettings

/// What operators see of users: a row for each.
package enum UserTable {
    /// - Parameters:
    ///   - choosesUsers: others may have been left out.
    ///   - now: the time that expiries are counted from.
    ///   - selected: the name of a user that stands out.
    ///   - columns: of the terminal; nil: there is no limit.
    package static func text(
        _ users: [UserReport], choosesUsers: Bool = false, now: WallTime, selected: String? = nil, usesColour: Bool,
        columns: Int? = nil
    ) -> OperatorText {
        guard !users.isEmpty else {
            return choosesUsers
                ? "No user is chosen by these options." : "There are no users: lanyard login NAME adds one."
        }
        var table = TextTable([
            "USER", "STATE", "SESSION", "IDENTITY", "TOKEN", "SESSION ENDS", "NEXT REFRESH", "MUST ACT", "LAST ERROR",
        ])
        for user in users {
            table.add([
                .init(user.name, user.name == selected ? .selected : .plain),
                .init(user.state, style(ofState: user.state)),
                .init(user.session, style(ofSession: user.session)), .init(user.identity),
                token(user.accessTokenExpiry, user.session, now), .init(end(user.refreshTokenExpiry, now)),
                .init(next(user.nextRefreshAt, now)),
                .init(user.action, user.action == "nobody" ? .plain : .bad), .init(user.errorText(now) ?? "-"),
            ])
            for variant in user.tokens {
                table.add([
                    .init("  \(variant.text)"), .init(""), .init(variant.state, style(ofSession: variant.state)),
                    .init(NamedVariant.owner(variant.route)), token(variant.expiry, variant.state, now), .init("-"),
                    .init(next(variant.nextRefreshAt, now)), .init("-"), .init(variant.lastError ?? "-"),
                ])
            }
        }
        return table.text(usesColour: usesColour, columns: columns)
    }

    /// When an access token expires, such as `expires in 23 min`.
    package static func expiry(_ time: WallTime, now: WallTime) -> String {
        let seconds = Int(time.seconds - now.seconds)
        return seconds > 0
            ? "expires in \(RelativeTime.text(seconds: seconds))"
            : "expired \(RelativeTime.text(seconds: -seconds)) ago"
    }

    private static func token(_ time: WallTime?, _ session: String, _ now: WallTime) -> TextTable.Entry {
        guard let time else { return session == "valid" ? "no expiry" : "-" }
        return .init(expiry(time, now: now), time > now ? .plain : .bad)
    }

    private static func end(_ time: WallTime?, _ now: WallTime) -> String {
        time.map { $0 > now ? "in \(RelativeTime.text(seconds: Int($0.seconds - now.seconds)))" : "ended" } ?? "-"
    }

    private static func next(_ time: WallTime?, _ now: WallTime) -> String {
        guard let time else { return "-" }
        let seconds = Int(time.seconds - now.seconds)
        return seconds > 0 ? "in \(RelativeTime.text(seconds: seconds))" : "now"
    }

    private static func style(ofState state: String) -> TextStyle {
        switch state {
        case "active": .good
        case "logged_out": .bad
        default: .plain
        }
    }

    private static func style(ofSession session: String) -> TextStyle {
        switch session {
        case "valid": .good
        case "logged_out", "on_demand": .faint
        case "login_required", "refused": .bad
        default: .doubtful
        }
    }
}

/// A span of time in one unit, as operators say it.
package enum RelativeTime {
    /// `45 s`, `23 min`, `5 h`, `59 d`; rounded down, with the unit that gives two digits or more where one does.
    package static func text(seconds: Int) -> String {
        switch seconds {
        case ..<100: "\(max(seconds, 0)) s"
        case ..<(100 * 60): "\(seconds / 60) min"
        case ..<(48 * 3600): "\(seconds / 3600) h"
        default: "\(seconds / 86_400) d"
        }
    }
}
