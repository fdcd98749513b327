/// A session at one point of its life: what a change of the store is based on. A change whose base has moved is not made.
package struct SessionVersion: Hashable, Sendable {
    /// `StoredSession.id`; 0: nobody was logged in.
    package var session: UInt64
    package var generation: UInt64

    /// Of a user whom the store does not know.
    static let nobody = SessionVersion(session: 0, generation: 0)

    package init(session: UInt64, generation: UInt64) {
        self.session = session
        self.generation = generation
    }
}
