import LanyardSettings

/// Why a variant is not fetched in any session of its user, until the configuration changes or an operator logs in
/// (docs/reference/oauth-variants.md 4.2).
package enum VariantBlock: UInt8, Sendable, CaseIterable {
    /// The service has refused its fetch and has used up the refresh token: the session has ended by it.
    case endsSession = 1
    /// Its fetch has taken the other scopes away from the session, for good.
    case narrowsSession = 2

    /// The reason with the remedy, for status and log.
    package var message: String {
        switch self {
        case .endsSession:
            "the identity service has refused this access token, and the session has ended by that call: it is not fetched again; "
                + "name all resources in params.resource, check token of the route, then reload or run lanyard login"
        case .narrowsSession:
            "the call for this access token takes the other scopes away from the session for good: it is not fetched again; give the "
                + "route a user of its own, or leave out token.scopes, then reload or run lanyard login"
        }
    }
}

/// A hash of a variant and of what its identity asks for besides, such as scopes and `params`. Another configuration of either has
/// another one.
package struct VariantMark: Hashable, Comparable, Sendable {
    /// SHA-256 under a fixed key: 32 bytes. It holds no secret.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// - Parameter request: `IdentityService.tokenRequest` of the variant's identity.
    package init(of variant: TokenVariant, request: IdentityFingerprint?) {
        bytes = MarkHash.bytes(of: [request?.bytes.description ?? "", variant.key], key: "lanyard variant mark")
    }

    package static func < (one: VariantMark, other: VariantMark) -> Bool {
        one.bytes.lexicographicallyPrecedes(other.bytes)
    }
}
