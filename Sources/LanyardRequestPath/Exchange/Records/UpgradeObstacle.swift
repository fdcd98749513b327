/// Why an `Upgrade` is dropped. Values of `upgrade_dropped` in the access log.
package enum UpgradeObstacle: String, CaseIterable, Sendable {
    case noProtocol = "no-protocol"
    /// None of the protocols is one of the route's `upgrades`.
    case notAllowed = "not-allowed-by-route"
    // The route allows the protocol, or one of them.
    case http10 = "http-1.0"
    /// `Connection` does not name `upgrade`: the field was meant for an earlier hop.
    case notInConnection = "not-in-connection"
    case severalProtocols = "several-protocols"

    /// A sentence for operators.
    package var explanation: String {
        switch self {
        case .noProtocol: "Upgrade names no protocol"
        case .notAllowed: "the route's upgrades do not name the protocol"
        case .http10: "the request is HTTP/1.0"
        case .notInConnection: "Connection does not name upgrade"
        case .severalProtocols: "Upgrade names several protocols"
        }
    }

    /// A protocol that the route allows is dropped: an operator expects the upgrade. Some clients ask for `h2c` with every request.
    var isUnexpected: Bool { self != .noProtocol && self != .notAllowed }
}
