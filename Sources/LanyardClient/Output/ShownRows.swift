import LanyardFoundations

/// Which rows of a long table are shown.
enum ShownRows {
    /// Those with an error, or for which an operator or a user must act, first; or, of a screen with a chosen user, those around it.
    static func users(_ users: [UserReport], around selected: String?, max: Int?) -> [UserReport] {
        guard let max, users.count > max else { return users }
        if let selected, let place = users.firstIndex(where: { $0.name == selected }) {
            let first = min(Swift.max(place - max / 2, 0), users.count - max)
            return Array(users[first..<(first + max)])
        }
        return first(users, max: max, where: needsAttention)
    }

    /// Those with errors first.
    static func routes(_ routes: [StatusActivity.Route], max: Int?) -> [StatusActivity.Route] {
        guard let max, routes.count > max else { return routes }
        return first(routes, max: max) { $0.isBreakerOpen || $0.recent.serverErrorCount > 0 }
    }

    /// The line about rows that are not shown.
    static func rest(_ count: Int, _ what: String, _ options: String) -> [OperatorText] {
        count > 0 ? [OperatorText(line: "... \(count) more \(what): \(options) choose some, --limit shows more")] : []
    }

    private static func needsAttention(_ user: UserReport) -> Bool {
        user.action != "nobody" || user.lastError != nil || user.slowCall != nil
            || ["login_required", "refused", "unreachable", "stale"].contains(user.session)
    }

    /// In the order of the list, but rows that `isFirst` before the others.
    private static func first<Row>(_ rows: [Row], max: Int, where isFirst: (Row) -> Bool) -> [Row] {
        let chosen = rows.filter(isFirst).prefix(max)
        return Array(chosen) + rows.filter { !isFirst($0) }.prefix(max - chosen.count)
    }
}
