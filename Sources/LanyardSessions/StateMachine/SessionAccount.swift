import LanyardFoundations
import LanyardSessionInterface

/// The account of a session, as its login has proved it (security.md T18, refresh-outcomes.md 11).
///
/// It decides what a login ends: replays, tunnels and upstream connections of another account. It never decides whose an account is:
/// `AccountOwnership` has the service's id alone.
package struct SessionAccount: Equatable, Sendable {
    /// What is known of an account.
    package enum Proof: Equatable, Sendable {
        /// The service's id of the account.
        case userID(String)
        /// A configured name, an ID token or an assertion has named it.
        case known(AccountFingerprint)
        /// Nothing names it. A login that Lanyard makes with the same credential is of the same account; nil: the credential is unknown,
        /// too.
        case unknown(credential: [UInt8]?)
    }

    package let proof: Proof
    /// The account in the request path. Another account has another number, also one that may be another.
    package let number: AccountNumber

    init(_ proof: Proof, _ number: AccountNumber = .next()) {
        self.proof = proof
        self.number = number
    }

    /// No account yet.
    package static let none = SessionAccount(.unknown(credential: nil), .unknown)

    /// What the store keeps with the session; nil: it keeps the service's id beside it, or nothing is known.
    var fingerprint: AccountFingerprint? { if case .known(let fingerprint) = proof { fingerprint } else { nil } }

    /// Another account than the latest one, or one that may be another. Without an earlier account there is no other.
    func isOther(than former: SessionAccount?) -> Bool { former.map { $0.number != number } ?? false }

    var isUnknown: Bool { if case .unknown = proof { true } else { false } }

    /// A login with this proof is one of the same account.
    ///
    /// - Parameter isExplicit: an operator has asked for it, and another account may have confirmed it.
    func isSame(as login: Proof, isExplicit: Bool) -> Bool {
        switch (proof, login) {
        case (.userID(let own), .userID(let other)): own == other
        case (.known(let own), .known(let other)): own == other
        case (.unknown(let own?), .unknown(let other?)): own == other && !isExplicit
        case (.userID, .known), (.userID, .unknown), (.known, .userID), (.known, .unknown), (.unknown, .userID),
            (.unknown, .known), (.unknown, .unknown):
            false
        }
    }

    /// What the stored session of the same user may be taken for: no other account is known of it.
    func mayBe(_ stored: Proof) -> Bool {
        switch stored {
        case .unknown: true
        case .userID, .known: isUnknown || isSame(as: stored, isExplicit: false)
        }
    }
}

extension SessionAccount.Proof {
    /// What a login or a link has proved.
    init(of grant: Grant) {
        self =
            grant.account.map { .known($0) } ?? grant.userID.map { .userID($0) }
            ?? .unknown(credential: grant.credential?.bytes)
    }

    /// What the store says of a session. One of a service that names its accounts has the id beside it.
    init(of session: StoredSession, userID: String?) {
        self = session.account.map { .known($0) } ?? userID.map { .userID($0) } ?? .unknown(credential: nil)
    }
}
