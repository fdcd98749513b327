import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Compares the audience of an access token with the one that it was asked for. An upstream must not get a token that is meant
/// for another one, and a server that ignores the request would give one.
///
/// Only a JWT says who its audience is (RFC 9068 §2.2). Texts are compared as they are.
enum VariantAudience {
    /// Characters of a token's audience in a message.
    private static let shownMax = 200

    /// - Parameter variant: without an audience and a resource nothing is compared.
    static func checked(_ grant: Grant, for variant: TokenVariant) -> Grant {
        let asked = variant.audience.map { [$0] } ?? variant.resources
        guard !asked.isEmpty, let audiences = JWTClaims.audiences(in: grant.accessToken),
            let missing = asked.first(where: { !audiences.contains($0) })
        else { return grant }
        var grant = grant
        let found = audiences.isEmpty ? "none" : audiences.map(shown).joined(separator: ", ")
        grant.audienceMismatch =
            "the access token is for the audience \(found), and the route asks for \(missing); it is not used: check token of "
            + "the route, and whether the server gives the client tokens for that audience"
        return grant
    }

    /// Visible ASCII alone: the text is the server's.
    static func shown(_ audience: String) -> String {
        String(
            String.UnicodeScalarView(
                audience.unicodeScalars.prefix(shownMax).map { 0x20..<0x7f ~= $0.value ? $0 : "?" }))
    }
}
