import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface

/// What a stored user's status is after each change.
@Suite struct StoredUserTests {
    private static let fingerprint = CredentialFingerprint(bytes: [1])

    private static func secret(_ text: String) -> Secret {
        var text = text
        return text.withUTF8 { Secret(copying: UnsafeRawBufferPointer($0)) }
    }

    private static let session = StoredSession(
        id: 7, access: secret("access"), refresh: secret("refresh"), refreshExpiry: nil,
        issuedAt: WallTime(seconds: 1), issuedAtBoot: BootInstant(boot: "", instant: Instant(nanoseconds: 1)),
        lifetime: .seconds(9))

    private static func user(_ status: StoredUser.Status) -> StoredUser {
        var user = StoredUser(name: "alice", identity: "demo")
        user.status = status
        return user
    }

    private static func word(_ user: StoredUser) -> String {
        switch user.status {
        case .none: "none"
        case .active: "active"
        case .deleting: "deleting"
        case .loggedOut: "loggedOut"
        }
    }

    /// Each status after each change, in the order of `statuses`.
    private static let table: [(change: String, apply: @Sendable (inout StoredUser) -> Void, after: [String])] = [
        ("end", { $0.endSession() }, ["none", "none", "loggedOut", "loggedOut"]),
        ("save", { $0.save(session, keepsLogout: false) }, ["active", "active", "active", "active"]),
        ("save kept", { $0.save(session, keepsLogout: true) }, ["active", "active", "deleting", "deleting"]),
        ("drop", { $0.dropRefreshToken() }, ["none", "active", "deleting", "loggedOut"]),
        ("mark", { $0.markDeletion(true) }, ["none", "deleting", "deleting", "loggedOut"]),
        ("unmark", { $0.markDeletion(false) }, ["none", "active", "active", "loggedOut"]),
    ]

    @Test("each status after each change")
    func changes() {
        let statuses: [StoredUser.Status] = [
            .none, .active(Self.session), .deleting(Self.session), .loggedOut,
        ]
        for (change, apply, after) in Self.table {
            let found = statuses.map { status in
                var user = Self.user(status)
                apply(&user)
                return Self.word(user)
            }
            #expect(found == after, "\(change)")
        }
    }

    @Test("the fingerprint of a refused credential outlives the status beside which it stands")
    func fingerprintStays() {
        var user = Self.user(.active(Self.session))
        user.refused = Self.fingerprint
        #expect(user.refused == Self.fingerprint && !user.isRefused && user.isAuthenticated)
        user.dropRefreshToken()
        #expect(user.isRefused && !user.isAuthenticated)
        user.endSession()
        #expect(user.status == .none && user.isRefused)
        user.status = .loggedOut
        #expect(user.refused == Self.fingerprint && user.isLoggedOut)
        user.refused = nil
        user.endSession()
        #expect(user.status == .loggedOut && user.refused == nil)
    }

    @Test("a session whose account is being deleted is not one to continue")
    func deleting() {
        let user = Self.user(.deleting(Self.session))
        #expect(user.session == Self.session && user.isLoggedOut && !user.isAuthenticated)
    }
}
