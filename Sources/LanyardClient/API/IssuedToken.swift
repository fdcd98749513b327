import LanyardFoundations

/// An access token as a Lanyard has given it out: the response of its admin API or of a broker.
package struct IssuedToken: Sendable {
    /// One word of visible ASCII.
    package let token: Secret
    /// Whose token it is; nil: the response does not say it.
    package let user: String?
    /// When the token is to be replaced by the next one; nil: it has no end.
    package let expiry: WallTime?
    /// Seconds from the response to `expiry`.
    package let expiresIn: Int?

    /// Reads a response. Its token is not copied into ordinary memory.
    ///
    /// - Parameter now: before the request was sent, so that `expiry` is never too late.
    /// - Returns: nil: it is no response with a token that a field or a line can carry.
    package init?(_ response: Secret, requestedAt now: WallTime) {
        guard let token = JSONSecret.member("access_token", of: response), token.isVisibleASCII else { return nil }
        self.token = token
        user = JSONSecret.member("user", of: response).map { $0.withBytes { String(decoding: $0, as: UTF8.self) } }
        expiresIn = JSONSecret.integer("expires_in", of: response)
        expiry = expiresIn.map { now + .seconds($0) }
    }
}

/// The forms in which a command prints an access token. Pure; each is in wiped memory and ends with a line end.
package enum TokenForm: Equatable, Sendable {
    /// The token alone.
    case plain
    /// A field for `curl -H @-`.
    case header
    /// Kubernetes' ExecCredential of this version.
    case execCredential(ExecCredentialVersion)
    /// The response of a git credential helper (gitcredentials(7)).
    case gitCredential(username: String)

    package func text(_ issued: IssuedToken) -> Secret {
        var text = SecretBuffer(capacity: issued.token.count + 256)
        switch self {
        case .plain: issued.token.withBytes { text.append($0) }
        case .header:
            text.append("Authorization: Bearer ")
            issued.token.withBytes { text.append($0) }
        case .execCredential(let version):
            text.append("{\"apiVersion\":\"\(version.rawValue)\",\"kind\":\"ExecCredential\",\"status\":{")
            if let expiry = issued.expiry {
                text.append("\"expirationTimestamp\":\"\(Self.second(expiry))\",")
            }
            text.append("\"token\":")
            _ = issued.token.withBytes { JSONText.write($0, into: &text) }
            text.append("}}")
        case .gitCredential(let username):
            text.append("username=\(username)\npassword=")
            issued.token.withBytes { text.append($0) }
            // Since git 2.41; earlier versions ignore it.
            if let expiry = issued.expiry { text.append("\npassword_expiry_utc=\(expiry.nanoseconds / 1_000_000_000)") }
        }
        text.append("\n")
        return text.seal()
    }

    /// RFC 3339 without a fraction, rounded down.
    private static func second(_ time: WallTime) -> String { Timestamp.text(time).prefix(19) + "Z" }
}

/// The versions of `client.authentication.k8s.io` that a plugin may respond in.
package enum ExecCredentialVersion: String, Equatable, Sendable, CaseIterable {
    case v1 = "client.authentication.k8s.io/v1"
    case v1beta1 = "client.authentication.k8s.io/v1beta1"

    /// The version that kubectl and client-go ask for.
    ///
    /// - Parameter info: the variable `KUBERNETES_EXEC_INFO`; nil: it is not set, as in a shell.
    /// - Throws: `usage`: the variable has another version, or is no JSON object with one. The kubeconfig is at fault.
    package static func asked(_ info: String?) throws(InputError) -> ExecCredentialVersion {
        guard let info else { return .v1 }
        var document = SecretBuffer()
        document.append(info)
        guard let name = JSONValue.read(document.seal())?["apiVersion"]?.string else {
            throw InputError(
                .usage, "KUBERNETES_EXEC_INFO is no JSON object with apiVersion",
                remedy: "leave the variable to kubectl, or unset it")
        }
        guard let version = ExecCredentialVersion(rawValue: name) else {
            throw InputError(
                .usage, "KUBERNETES_EXEC_INFO asks for a version that this command does not write",
                remedy:
                    "set apiVersion below user and exec of the kubeconfig to \(v1.rawValue) or \(v1beta1.rawValue)")
        }
        return version
    }
}
