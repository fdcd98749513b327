/// One user as operators see it.
package struct UserView: Sendable {
    package var status: SessionStatus
    package var userState: UserState

    package init(status: SessionStatus, userState: UserState) {
        self.status = status
        self.userState = userState
    }
}
