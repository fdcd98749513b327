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
    private static let audiencesMax = 8

    /// - Parameters:
    ///   - variant: without an audience and a resource nothing is compared.
    ///   - echo: of the call. An audience with one of its secrets is not shown.
    static func checked(
        _ grant: Grant, for variant: TokenVariant, without echo: @autoclosure () -> SecretEcho
    ) -> Grant {
        let asked = variant.audience.map { [$0] } ?? variant.resources
        guard !asked.isEmpty, let audiences = JWTClaims.audiences(in: grant.accessToken),
            let missing = asked.first(where: { !audiences.contains($0) })
        else { return grant }
        var grant = grant
        let found = audiences.isEmpty ? "none" : shown(audiences, echo())
        grant.audienceMismatch =
            "the access token is for the audience \(found), and the route asks for \(missing); it is not used: check token of "
            + "the route, and whether the server gives the client tokens for that audience"
        return grant
    }

    private static func shown(_ audiences: [String], _ echo: SecretEcho) -> String {
        let all = audiences.joined(separator: " ")
        guard !audiences.contains(where: echo.isIn(name:)), !echo.isIn(name: all) else {
            return audiences.count == 1 ? "of another text" : "of other texts"
        }
        return audiences.prefix(audiencesMax).map(shown).joined(separator: ", ")
            + (audiences.count > audiencesMax ? ", ..." : "")
    }

    /// Visible ASCII alone: the text is the server's.
    static func shown(_ audience: String) -> String {
        String(
            String.UnicodeScalarView(
                audience.unicodeScalars.prefix(shownMax).map { 0x20..<0x7f ~= $0.value ? $0 : "?" }))
    }
}
