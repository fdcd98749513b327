/// One entry of `brokers:`, beside its listener: who may have which access tokens (fleet.md 1).
package struct BrokerSettings: Equatable, Sendable {
    /// What a broker understands.
    package enum Interface: String, CaseIterable, Sendable {
        /// `GET /v1/token`.
        case token
        /// `POST /oauth2/token` (RFC 6749, RFC 8693).
        case oauth2
        /// The metadata server of Google Compute Engine.
        case gceMetadata = "gce_metadata"
    }

    /// A row of `callers`.
    package struct Caller: Equatable, Sendable {
        /// Unix users at the other end of a unix socket.
        package var uids: [UInt32] = []
        /// Names of client certificates.
        package var clientNames: [String] = []
        /// The file with the row's capability; nil: none is asked for.
        package var capabilityFile: String?
        /// The users whose tokens it may have; `active` is the active one. Never empty.
        package var users: [String]
        /// The audiences that it may ask for; nil: any that the configuration names, and the plain token.
        package var audiences: [String]?
        /// The scopes that it may ask for; nil: any that the configuration names.
        package var scopes: [String]?

        package init(users: [String]) { self.users = users }

        /// The row is everyone who reaches the broker.
        package var isAnyone: Bool { uids.isEmpty && clientNames.isEmpty && capabilityFile == nil }

        /// The kinds of tokens that the row itself names, without the plain one.
        package var variants: [TokenVariant] {
            let scopes = Set(scopes ?? [])
            let audiences: [String?] = audiences.map { $0.map { $0 } } ?? [nil]
            return audiences.map { TokenVariant(audience: $0, scopes: scopes) }.filter { $0 != .plain }
        }
    }

    /// The user name that stands for the active user.
    package static let activeUser = "active"

    /// The place in `brokers`.
    package var index: Int
    package var serves: Set<Interface> = [.token]
    /// In the order of the file: the first row that matches decides.
    package var callers: [Caller] = []

    package init(index: Int) { self.index = index }
}
