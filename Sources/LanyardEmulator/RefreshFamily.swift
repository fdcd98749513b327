/// The refresh tokens that one session has had: which is in force, and what a repeat of an older one means. It decides only.
struct RefreshFamily: Sendable {
    enum Outcome: Equatable {
        /// The token in force; it stays (no rotation) or makes way for the next.
        case unchanged, rotates
        /// The one before, early enough: the successor is given out once more.
        case repeats
        /// An old one, and too late.
        case tooLate
        /// An old one where that ends the session.
        case endsFamily
    }

    /// The serial number of the token in force; 1 is the login's.
    private(set) var serial = 1
    /// The token in force as it was given out; nil while it is the login's.
    private(set) var token: String?
    /// When the token in force took the place of the one before it. Seconds since 1970.
    private var rotatedAt = 0.0

    func outcome(_ presented: Int, _ rotation: RefreshRotation, at now: Double, graceSeconds: Double) -> Outcome {
        switch rotation {
        case .none: .unchanged
        case _ where presented == serial: .rotates
        // A serial before that one means that the successor has been used: it had arrived.
        case .grace: presented == serial - 1 && now - rotatedAt < graceSeconds ? .repeats : .tooLate
        case .oneUse: .endsFamily
        }
    }

    /// The next token takes over.
    mutating func rotate(to token: String, at now: Double) {
        serial += 1
        self.token = token
        rotatedAt = now
    }
}
