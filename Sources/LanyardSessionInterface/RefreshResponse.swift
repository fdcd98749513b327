import LanyardSettings

/// What has come back of a call with a refresh token, as far as it tells whether the service may have made a successor that
/// is lost (refresh-outcomes.md 9).
package struct RefreshResponse: Equatable, Sendable {
    /// What the body says of an error.
    package enum StatedError: Equatable, Sendable, CaseIterable {
        /// Nothing that can be read. Most errors of gateways are so.
        case none
        /// The service's own error, by its name: it has made no successor that the response lacks.
        case named
        /// `server_error`: the service has failed, perhaps after it had made the successor.
        case ofServer
    }

    /// Bytes of the body, which has the refresh token, were sent.
    package var isSent: Bool
    /// The status of the final response; nil: its head did not come.
    package var status: Int?
    /// The whole body came.
    package var isWhole: Bool
    /// What a whole body says of an error.
    package var error: StatedError

    package init(isSent: Bool = true, status: Int?, isWhole: Bool = true, error: StatedError = .none) {
        self.isSent = isSent
        self.status = status
        self.isWhole = isWhole
        self.error = error
    }

    /// Statuses from 500 on that say that the request was not carried out (RFC 9110 §15.6, RFC 6585 §6).
    package static let refusingServerErrors: Set<Int> = [501, 503, 505, 511]

    /// Whether the refresh token may have been exchanged.
    ///
    /// - Parameter rotation: of the session. `auto`: no response has shown another refresh token yet.
    package func outcome(_ rotation: RefreshTokenRotation) -> RefreshOutcome {
        guard isSent else { return .unsent }
        guard let status, isWhole else { return .unknown }
        if status >= 500 {
            switch error {
            case .named: return .known
            case .none where Self.refusingServerErrors.contains(status),
                .ofServer where Self.refusingServerErrors.contains(status):
                return .known
            case .none, .ofServer: return rotation == .oneUse ? .unknown : .known
            }
        }
        switch error {
        case .named, .ofServer: return .known
        // A success that cannot be read may have had the successor.
        case .none: return rotation != .none && 200..<300 ~= status ? .unknown : .known
        }
    }
}

/// Whether a refresh token whose call has brought no usable tokens may have been exchanged (refresh-outcomes.md 9).
package enum RefreshOutcome: String, Sendable, CaseIterable {
    /// The service has not got it.
    case unsent
    /// The service has told all that it has made: no successor is lost. That does not prove that the token still works.
    case known
    /// A successor may be lost.
    case unknown
}
