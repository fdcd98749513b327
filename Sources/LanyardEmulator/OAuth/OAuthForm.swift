import FlyingFox
import Foundation

/// The fields of a form or of a query (RFC 6749 appendix B). A field without a value counts as omitted (§3.1).
struct OAuthForm: Sendable {
    /// Fields that may be there several times (RFC 8693 §2.1, RFC 8707 §2).
    private static let lists: Set<String> = ["audience", "resource"]
    private static let fieldsMax = 1000

    private var fields: [String: [String]] = [:]

    /// - Throws: `invalid_request` for damaged escapes, and for a field that is there twice.
    init(_ text: some StringProtocol) throws(OAuthError) {
        let pairs = text.split(separator: "&")
        guard pairs.count <= Self.fieldsMax else { throw .invalidRequest("there are too many fields") }
        for pair in pairs {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(parts[0]), let value = Self.decode(parts.count > 1 ? parts[1] : "") else {
                throw .invalidRequest("a field is no text in the encoding of forms")
            }
            if value.isEmpty { continue }
            if fields[name] != nil, !Self.lists.contains(name) {
                throw .invalidRequest("\(name) is there twice (RFC 6749 section 3.1)")
            }
            fields[name, default: []].append(value)
        }
    }

    /// The form in a request's body.
    static func read(_ request: HTTPRequest) async throws(OAuthError) -> OAuthForm {
        var data = Data()
        do {
            // Read to its end: FlyingFox reads the next request from where the reading stopped.
            for try await part in request.bodySequence where data.count <= RequestBody.bytesMax { data.append(part) }
        } catch {
            throw .invalidRequest("the request body is incomplete")
        }
        guard data.count <= RequestBody.bytesMax else { throw .tooLarge }
        let type = (request.headers[.contentType] ?? "").split(separator: ";").first ?? ""
        let isForm = type.trimmingCharacters(in: .whitespaces).lowercased() == "application/x-www-form-urlencoded"
        guard isForm || data.isEmpty else {
            throw .invalidRequest("the body is application/x-www-form-urlencoded (RFC 6749 appendix B)")
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            throw .invalidRequest("a field is no text in the encoding of forms")
        }
        return try OAuthForm(text)
    }

    subscript(name: String) -> String? { fields[name]?.first }

    func all(_ name: String) -> [String] { fields[name] ?? [] }

    func required(_ name: String) throws(OAuthError) -> String {
        guard let value = self[name] else { throw .missing(name) }
        return value
    }

    /// nil: a damaged escape, or no UTF-8.
    static func decode(_ text: some StringProtocol) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"): bytes.append(0x20)
            case UInt8(ascii: "%"):
                let digits = String(decoding: rest.prefix(2), as: UTF8.self)
                guard digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit), let value = UInt8(digits, radix: 16)
                else {
                    return nil
                }
                bytes.append(value)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// A text in the encoding of queries.
    static func encode(_ text: String) -> String {
        let kept = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
        return text.addingPercentEncoding(withAllowedCharacters: kept) ?? ""
    }
}

/// The syntax of scopes (RFC 6749 §3.3).
enum OAuthScope {
    static func isToken(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
    }

    /// The scopes of a field, each once; nil: a part of it is no scope.
    static func read(_ text: String) -> [String]? {
        var scopes: [String] = []
        for part in text.split(separator: " ").map(String.init) where !scopes.contains(part) {
            guard isToken(part) else { return nil }
            scopes.append(part)
        }
        return scopes
    }
}

/// Where a browser goes after a login.
enum RedirectURI {
    /// Whether it is an absolute URI without a fragment (RFC 6749 §3.1.2), of printable ASCII.
    static func isURI(_ text: String) -> Bool {
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }), !text.contains("#"),
            let parts = URLComponents(string: text), let scheme = parts.scheme
        else { return false }
        return scheme != "javascript" && scheme != "data" && text.utf8.count > scheme.utf8.count + 1
    }

    /// The same URI without its port, if it is one of the machine itself by http (RFC 8252 §7.3).
    static func withoutLoopbackPort(_ text: String) -> String? {
        guard isURI(text), var parts = URLComponents(string: text), parts.scheme == "http", parts.user == nil,
            let host = parts.host, ["127.0.0.1", "[::1]", "::1", "localhost"].contains(host)
        else { return nil }
        parts.port = nil
        return parts.string
    }

    /// Whether a client with these URIs may use it. Ports of loopback URIs do not count. A client without URIs has all loopback ones.
    static func isAllowed(_ text: String, _ registered: [String]) -> Bool {
        guard isURI(text) else { return false }
        if registered.contains(text) { return true }
        guard let loopback = withoutLoopbackPort(text) else { return false }
        return registered.isEmpty || registered.contains { withoutLoopbackPort($0) == loopback }
    }
}
