import LanyardFoundations
import LanyardSettings

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

    /// A member with secret text. What reads it from outside checks that it is UTF-8: `SecretInput`, `BrowserRedirect`.
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

extension LoginMethod<Secret> {
    /// Adds the member `credential` (architecture-control.md 7.4).
    package func write(into body: inout RequestBody) {
        body.add("credential") { body in
            body.add(provider) { body in
                if let account, let name = kind.accountName { body.add(name, account) }
                guard let secret, let name = kind.secretName else { return }
                if kind == .function { body.add(name, json: secret) } else { body.add(name, secret) }
                guard kind == .tokenExchange else { return }
                body.add("subject_token_type", tokenTypes.subject)
                if let actorToken {
                    body.add("actor_token", actorToken)
                    body.add("actor_token_type", tokenTypes.actor)
                }
            }
        }
    }
}
