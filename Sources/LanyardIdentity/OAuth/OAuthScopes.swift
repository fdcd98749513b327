import LanyardFoundations
import LanyardSessionInterface

/// The scopes of a response (RFC 6749 §3.3). They are stored, and sent in later calls of the session, so their number and length have
/// limits. Scopes beyond them count as not stated.
enum OAuthScopes {
    /// Bytes of all scopes of a response.
    static let bytesMax = 4096
    /// Bytes of one: what the store's text can hold.
    private static let scopeBytesMax = 1024

    /// A text of scopes. Between them are blanks, or commas as GitHub and Slack write them. An empty text states none: at least one is
    /// granted (RFC 6749 §3.3).
    static func read(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> Set<String>? {
        split(text, bytes).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// nil: one of them cannot be kept.
    private static func split(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer) -> Set<String>? {
        guard let text = JSONText.secret(text, of: bytes, countMax: bytesMax) else { return nil }
        return text.withBytes { text in
            var scopes: Set<String> = []
            for scope in text.split(whereSeparator: { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: ",") }) {
                guard scope.count <= scopeBytesMax, scope.allSatisfy(isOfScope) else { return nil }
                scopes.insert(String(decoding: scope, as: UTF8.self))
            }
            return scopes
        }
    }

    /// An array with a scope, or several, in each element. The array is open already.
    static func list(_ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer) throws(JSONError) -> Set<String>? {
        var scopes: Set<String>? = []
        while true {
            switch try reader.next() {
            case .string(let text):
                let read = split(text, bytes)
                scopes = read.flatMap { scopes?.union($0) }
            case .objectStart, .arrayStart:
                try OAuthResponse.skipRest(of: &reader)
                scopes = nil
            case .arrayEnd, .end: return scopes.flatMap { !$0.isEmpty && isWithinLimit($0) ? $0 : nil }
            default: scopes = nil
            }
        }
    }

    /// What the response states; nil: nothing. A scope with a secret of the call would reach the log and the store, and is left out.
    ///
    /// - Parameter asked: scopes that the configuration or the session has: they are known, and hide nothing.
    static func stated(
        in grant: Grant, _ response: CurlResponse, asked: [String], without sent: [Secret]
    ) -> Set<String>? {
        guard let scopes = grant.scopes else { return nil }
        let unknown = scopes.subtracting(asked)
        guard !unknown.isEmpty else { return scopes }
        let echo = SecretEcho(of: sent, and: response)
        let rest = unknown.filter { !echo.isIn(name: $0) }
        // A secret with a blank in it comes as two scopes, which stand side by side in the text.
        let isWhole = text(of: rest, in: response)?.withBytes { echo.isIn($0, shortSecrets: .words) } ?? false
        let shown = scopes.subtracting(unknown).union(isWhole ? [] : rest)
        return shown.isEmpty ? nil : shown
    }

    /// Some scopes of a response in its order.
    private static func text(of scopes: Set<String>, in response: CurlResponse) -> Secret? {
        response.body.withBytes { ServiceErrorText.scope(in: $0) }.map { text in
            text.withBytes { bytes in
                var rest = SecretBuffer(capacity: bytes.count + 1)
                for word in bytes.split(separator: 0x20) where scopes.contains(String(decoding: word, as: UTF8.self)) {
                    if rest.count > 0 { rest.append(0x20) }
                    rest.append(UnsafeRawBufferPointer(rebasing: word))
                }
                return rest.seal()
            }
        }
    }

    /// Scopes that a login has asked for, as far as they can be kept; nil: none.
    static func requested(_ scopes: [String]) -> Set<String>? {
        // As a response states them.
        let requested = Set(scopes.flatMap { $0.split(separator: ",").map(String.init) })
        let isKept = isWithinLimit(requested) && requested.allSatisfy { $0.utf8.count <= scopeBytesMax }
        return requested.isEmpty || !isKept ? nil : requested
    }

    private static func isWithinLimit(_ scopes: Set<String>) -> Bool {
        scopes.reduce(0) { $0 + $1.utf8.count + 1 } <= bytesMax
    }

    /// RFC 6749 appendix A.4.
    private static func isOfScope(_ byte: UInt8) -> Bool {
        0x21...0x7e ~= byte && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }
}
