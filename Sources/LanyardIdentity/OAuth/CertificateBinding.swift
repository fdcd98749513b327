import LanyardFoundations
import LanyardSettings
import Logging

/// Compares the certificate that an access token is bound to with the client's own (RFC 8705 §3.1).
///
/// The difference is told, and the token is used: what ends TLS before the service may also do so before the upstream, and only
/// the upstream knows whether it compares.
struct CertificateBinding {
    private struct Difference: Equatable {
        let bound: String
        let own: String
    }

    /// The latest difference that was told; nil: none, or a token since then fits.
    private var told: Difference?

    /// - Parameters:
    ///   - certificate: PEM, that the connection of the token call has shown; nil: none, and nothing is compared.
    ///   - identity: its name in the configuration.
    ///   - echo: of the call. A claim with one of its secrets is not shown.
    mutating func check(
        _ token: Secret, with certificate: Secret?, identity: String, _ logger: Logger,
        without echo: @autoclosure () -> SecretEcho
    ) {
        guard let certificate, let bound = JWTClaims.certificateThumbprint(in: token),
            let own = SigningKey.thumbprint(of: certificate)
        else { return }
        let difference = bound == own ? nil : Difference(bound: Self.shown(bound, echo()), own: own)
        defer { told = difference }
        guard let difference, difference != told else { return }
        logger.warning(
            """
            An access token is bound to another certificate than the identity's: an upstream that compares them will refuse \
            it. Check what ends TLS between Lanyard and the identity service.
            """,
            metadata: [
                "event": "identity.token.binding_differs", "identity": "\(identity)", "bound_to": "\(difference.bound)",
                "certificate": "\(difference.own)",
            ])
    }

    private static func shown(_ thumbprint: String, _ echo: SecretEcho) -> String {
        echo.isIn(name: thumbprint) ? "a text that cannot be shown" : VariantAudience.shown(thumbprint)
    }
}
