extension HealthSnapshot {
    /// A snapshot from the latest session report, evaluated at `now`: a token that has expired since the report is not valid.
    ///
    /// - Parameters:
    ///   - followsActiveUser: at least one route follows the active user.
    ///   - pinnedUsers: users named by routes, configured or not.
    package init(_ report: SessionReport, followsActiveUser: Bool, pinnedUsers: [String], at now: Instant = .now) {
        self.init(
            users: report.users.map { status in
                User(
                    name: status.user, isReady: status.isReady(at: now), reason: status.reason(at: now).rawValue,
                    hasBeenReady: status.hasEverBeenReady)
            },
            activeUser: report.activeUser.flatMap { active in report.users.first { $0.index == active }?.user },
            followsActiveUser: followsActiveUser, pinnedUsers: pinnedUsers)
        clockSkew = report.skew
        store = report.isStoreFailing ? .failing : report.isStoreInMemory ? .memoryOnly : .stored
    }
}
