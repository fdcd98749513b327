/// Schemes of HTTP authentication that authenticate the connection and not the request: what a later request on the
/// connection carries, its sender counts as who has authenticated first (RFC 4559 §6, http-connections.md 16.9).
enum ConnectionAuthentication {
    /// The schemes, in lower case. `Kerberos`, `CredSSP` and `Nego2` are those of Windows Remote Management and IIS.
    private static let schemes: [StaticString] = ["ntlm", "negotiate", "kerberos", "credssp", "nego2"]

    private static func isScheme(_ word: Bytes) -> Bool { schemes.contains { word.equals(lowered: $0) } }

    private static func isAuthorization(_ index: Int, _ lines: FieldLines, in head: Bytes) -> Bool {
        lines[index].nameLength == 13 && lines.name(index, in: head).equals(lowered: "authorization")
    }

    /// A configured value before the token begins with such a scheme.
    static func isUsed(byPrefix prefix: String) -> Bool {
        let word = prefix.prefix { $0 != " " }.lowercased()
        return Array(word.utf8).withUnsafeBufferPointer { isScheme($0) }
    }

    /// The request has an `Authorization`, of whatever scheme.
    static func isAny(in lines: FieldLines, of head: Bytes) -> Bool {
        (0..<lines.count).contains { isAuthorization($0, lines, in: head) }
    }

    /// A request's own `Authorization` uses such a scheme.
    static func isUsed(by lines: FieldLines, in head: Bytes) -> Bool {
        (0..<lines.count).contains { index in
            guard isAuthorization(index, lines, in: head) else { return false }
            let value = lines.value(index, in: head)
            let end = value.firstIndex { !ByteClass.isToken($0) } ?? value.count
            return isScheme(value[run: 0..<end])
        }
    }

    /// What a response's fields say of the connection.
    struct Challenge {
        /// The response offers or continues such a scheme, or says that the connection stays authenticated.
        var isOffered = false
        /// It has a challenge for a token in the request as well.
        var hasBearer = false

        /// Finds the schemes' names as words anywhere in a value. A word inside a parameter binds a connection for nothing,
        /// which does no harm. One that a stricter reader missed would give it to another client.
        init(of lines: FieldLines, in head: Bytes) {
            for index in 0..<lines.count {
                if lines[index].name == .wwwAuthenticate {
                    read(lines.value(index, in: head))
                } else if lines[index].nameLength == 15,
                    lines.name(index, in: head).equals(lowered: "persistent-auth"),
                    lines.value(index, in: head).equals(lowered: "true")
                {
                    isOffered = true
                }
            }
        }

        private mutating func read(_ value: Bytes) {
            var start = 0
            while start < value.count {
                var end = start
                while end < value.count, ByteClass.isToken(value[end]) { end += 1 }
                let word = value[run: start..<end]
                if ConnectionAuthentication.isScheme(word) { isOffered = true }
                if word.equals(lowered: "bearer") || word.equals(lowered: "dpop") { hasBearer = true }
                start = end + 1
            }
        }
    }
}
