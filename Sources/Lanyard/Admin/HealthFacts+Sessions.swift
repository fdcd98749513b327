extension HealthSnapshot {
    /// What the sessions' latest report says, as of `now`: a token that has ended since then is not valid.
    ///
    /// - Parameters:
    ///   - followsActiveUser: some route follows the active user.
    ///   - pinnedUsers: users that routes name, configured or not.
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
