/// All refresh tokens of one session. It knows the current one and decides what a repeat of an older one means.
struct RefreshFamily: Sendable {
    enum Outcome: Equatable {
        /// The current token. Without rotation it stays; with rotation the next one replaces it.
        case unchanged, rotates
        /// The previous token within the grace time: the same successor is returned again.
        case repeats
        /// An old token after the grace time.
        case tooLate
        /// An old token under `one_use`: it ends the session.
        case endsFamily
    }

    /// The serial number of the current token; 1 is the login's.
    private(set) var serial = 1
    /// The current token as issued; nil while it is the login's.
    private(set) var token: String?
    /// When the current token replaced the previous one, in seconds since 1970.
    private var rotatedAt = 0.0

    func outcome(_ presented: Int, _ rotation: RefreshRotation, at now: Double, graceSeconds: Double) -> Outcome {
        switch rotation {
        case .none: .unchanged
        case _ where presented == serial: .rotates
        // An even older token means that the successor has been used, so it had arrived.
        case .grace: presented == serial - 1 && now - rotatedAt < graceSeconds ? .repeats : .tooLate
        case .oneUse: .endsFamily
        }
    }

    /// Makes `token` the current one.
    mutating func rotate(to token: String, at now: Double) {
        serial += 1
        self.token = token
        rotatedAt = now
    }
}
