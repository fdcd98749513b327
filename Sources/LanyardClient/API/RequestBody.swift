import LanyardFoundations

/// The JSON body of an admin call, in wiped memory because most bodies hold secrets.
///
/// The writer adds commas. Every key and text is escaped.
package struct RequestBody: ~Copyable {
    private var buffer = SecretBuffer()
    private var needsComma = false

    /// An object that is already open; `seal()` closes it.
    package init() { buffer.append("{") }

    /// A member with text that is not secret.
    package mutating func add(_ key: String, _ value: String) {
        begin(key)
        JSONText.write(value, into: &buffer)
    }

    /// A member with secret text, which `SecretInput` has checked to be UTF-8.
    package mutating func add(_ key: String, _ value: Secret) {
        begin(key)
        let isText = value.withBytes { JSONText.write($0, into: &buffer) }
        precondition(isText, "a secret that is not UTF-8 was not refused when it was read")
    }

    /// A member that is true or false.
    package mutating func add(_ key: String, _ value: Bool) {
        begin(key)
        buffer.append(value ? "true" : "false")
    }

    /// A member whose value is a JSON document that was checked.
    package mutating func add(_ key: String, json: Secret) {
        begin(key)
        json.withBytes { buffer.append($0) }
    }

    /// A member that is an object; `fill` adds its members.
    package mutating func add(_ key: String, object fill: (inout RequestBody) -> Void) {
        begin(key)
        buffer.append("{")
        needsComma = false
        fill(&self)
        buffer.append("}")
        needsComma = true
    }

    /// The whole body.
    package consuming func seal() -> Secret {
        buffer.append("}")
        return buffer.seal()
    }

    private mutating func begin(_ key: String) {
        if needsComma { buffer.append(",") }
        needsComma = true
        JSONText.write(key, into: &buffer)
        buffer.append(":")
    }
}

/// What logs a user in, as a command has read it (architecture.md 7.4).
package enum LoginCredential: Sendable {
    case anonymous
    case emailPassword(email: String, password: Secret)
    case apiKey(Secret)
    /// The payload is a JSON object.
    case function(payload: Secret)
    case jwt(Secret)
    case facebook(accessToken: Secret)
    case googleIDToken(Secret)
    case googleAuthCode(Secret)
    case apple(idToken: Secret)

    /// Adds the member `credential`.
    package func write(into body: inout RequestBody) {
        body.add("credential") { body in
            switch self {
            case .anonymous: body.add("anonymous") { _ in }
            case .emailPassword(let email, let password):
                body.add("email_password") {
                    $0.add("email", email)
                    $0.add("password", password)
                }
            case .apiKey(let key): body.add("api_key") { $0.add("key", key) }
            case .function(let payload): body.add("function") { $0.add("payload", json: payload) }
            case .jwt(let token): body.add("jwt") { $0.add("token", token) }
            case .facebook(let token): body.add("facebook") { $0.add("access_token", token) }
            case .googleIDToken(let token): body.add("google") { $0.add("id_token", token) }
            case .googleAuthCode(let code): body.add("google") { $0.add("auth_code", code) }
            case .apple(let token): body.add("apple") { $0.add("id_token", token) }
            }
        }
    }
}
