import LanyardFoundations

/// Which access token a command asks for: its user, and what a route names by `token`.
package struct TokenQuery: Equatable, Sendable {
    /// nil: at a broker the only user of the caller's row.
    package var user: String?
    package var audience: String?
    package var resources: [String] = []
    package var scopes: [String] = []

    package init() {}

    /// Path and query of the broker's call.
    package var brokerPath: String { "/v1/token" + text((user.map { [("user", $0)] } ?? []) + variant) }

    /// The same of the admin API.
    ///
    /// - Parameter user: a valid name.
    package func adminPath(of user: String) -> String { "/v1/users/\(user)/token" + text(variant) }

    private var variant: [(key: String, value: String)] {
        var all = audience.map { [(key: "audience", value: $0)] } ?? []
        all += resources.map { ("resource", $0) }
        if !scopes.isEmpty { all.append(("scope", scopes.joined(separator: " "))) }
        return all
    }

    private func text(_ all: [(key: String, value: String)]) -> String {
        guard !all.isEmpty else { return "" }
        return "?" + all.map { "\($0.key)=\(AdminClient.segment($0.value))" }.joined(separator: "&")
    }
}

/// When a command that watches a token asks again. Pure.
package enum TokenSchedule {
    /// At least each minute, since the token may be replaced before its end; at most each second.
    private static let seconds = 1...60

    /// After a token.
    package static func delay(after issued: IssuedToken) -> Duration {
        .seconds(clamped(issued.expiresIn ?? seconds.upperBound))
    }

    /// After a failure: as the response says, else 1 s, twice as long with each further one.
    ///
    /// - Parameter failures: in a row, from 1.
    package static func delay(afterFailures failures: Int, retryAfter: Int?) -> Duration {
        .seconds(clamped(retryAfter ?? 1 << min(max(failures, 1) - 1, 10)))
    }

    private static func clamped(_ value: Int) -> Int { min(max(value, seconds.lowerBound), seconds.upperBound) }
}
