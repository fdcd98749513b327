/// What an identity service knows of a user's session that was ended here.
package enum RevocationState: String, Sendable, CaseIterable {
    /// The service has confirmed its end, or did not know it any more.
    case confirmed
    /// It is told again.
    case pending
    /// The service has no revocation: the session ends there by itself.
    case notSupported = "not_supported"
    /// Its identity is not configured any more, or the service could not be told for a day.
    case givenUp = "given_up"
    /// There was nothing to tell, or an earlier process has told it.
    case none

    /// Of several sessions that ended together: what is worst for an operator.
    func joined(_ other: RevocationState) -> RevocationState {
        let order: [RevocationState] = [.givenUp, .notSupported, .pending, .confirmed, .none]
        return order.first { $0 == self || $0 == other } ?? .none
    }
}

extension RevocationQueue.Outcome {
    var state: RevocationState {
        switch self {
        case .told: .confirmed
        case .notSupported: .notSupported
        case .givenUp, .shareUsedUp: .givenUp
        }
    }
}
