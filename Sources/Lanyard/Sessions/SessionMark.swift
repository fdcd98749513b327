/// One version of a session: the base of a change of the store. A change whose base has moved is not made.
package struct SessionVersion: Hashable, Sendable {
    /// `StoredSession.id`; 0: no session.
    package var session: UInt64
    package var generation: UInt64

    /// The version of a user that the store does not know.
    static let absent = SessionVersion(session: 0, generation: 0)

    package init(session: UInt64, generation: UInt64) {
        self.session = session
        self.generation = generation
    }
}
