/// One user as an operator is shown it.
package struct UserView: Sendable {
    package var status: SessionStatus
    package var standing: UserStanding

    package init(status: SessionStatus, standing: UserStanding) {
        self.status = status
        self.standing = standing
    }
}
