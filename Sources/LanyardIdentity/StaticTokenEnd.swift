import LanyardFoundations
import LanyardSettings

/// The end that a static token names: `exp` of a JWT (RFC 7519 §4.1.4), by the clock of who issued it. The token is sent beyond it. `run`
/// and `check` warn of it.
package struct StaticTokenEnd: Equatable, Sendable {
    static let remedy = "have another program renew the file before"

    private let time: WallTime

    /// As RFC 3339 has it.
    var text: String { Timestamp.text(time) }

    /// nil: the token names none.
    init?(of token: Secret) {
        guard let expiry = JWTClaims(of: token)?.expiry else { return nil }
        time = WallTime(seconds: max(expiry, 0))
    }

    /// By this machine's clock, which may be wrong: only words follow from it.
    func hasPassed(at now: WallTime = .now) -> Bool { time <= now }

    /// What `lanyard check` warns of: the file of a `static` identity, and the warning. Blocks as long as the disk does.
    ///
    /// - Returns: nil: the token names no end, or there is no usable one, which the configuration's own check reports.
    package static func finding(_ identity: IdentitySettings, at now: WallTime = .now) -> (path: String, text: String)?
    {
        guard case .staticToken(let path) = identity.kind,
            let content = try? SecretFile.read(path, bytesMax: SecretFile.credentialBytesMax),
            let token = try? FieldValueSecret.value(of: content.secret), let end = StaticTokenEnd(of: token)
        else { return nil }
        let state = end.hasPassed(at: now) ? "has passed" : "is still to come"
        let text = "\(path) holds a token that names its own end (exp), \(end.text), which \(state)"
        return (path, "\(text); it is sent beyond it: \(remedy)")
    }
}
