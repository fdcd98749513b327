import LanyardRequestPath
import Testing

/// Which refusals a new token could mend.
@Suite struct TokenRefusalTests {
    private static func refusal(_ fields: String) -> TokenRefusal? {
        let text = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\(fields)\r\n"
        let table = FieldTable(capacity: 64)
        return Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = ResponseReader()
            guard (try? reader.read(bytes, into: table, isResponseToHead: false)) != nil else { return nil }
            return TokenRefusal(table, in: bytes)
        }
    }

    @Test(
        "a refresh helps against an invalid token, and where nothing is said",
        arguments: [
            "", "WWW-Authenticate:\r\n", "WWW-Authenticate: Bearer\r\n",
            "Www-Authenticate: Bearer error=\"invalid_token\"\r\n",
            "WWW-Authenticate: Basic realm=\"x\"\r\n", "WWW-Authenticate: Bearer error=whatever\r\n",
            // Not a Bearer challenge's own word.
            "WWW-Authenticate: Basic error=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: Bearer realm=\"error=insufficient_scope, Bearer error=\\\"insufficient_scope\\\"\"\r\n",
            "WWW-Authenticate: Bearer error_description=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: Bearer error=\"invalid_token\", Basic error=\"insufficient_scope\"\r\n",
            "X-WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n",
            // Cannot be read.
            "WWW-Authenticate: Bearer error=\"insufficient_scope\r\n",
            "WWW-Authenticate: Bearer error=insufficient_scope oops\r\n",
            "WWW-Authenticate: error=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: Bearer error=invalid_token, error=insufficient_scope\r\n",
            "WWW-Authenticate: Bearer =\r\nWWW-Authenticate: error=insufficient_scope\r\n",
            "WWW-Authenticate: Bearer error=invalid_request, Bearer error=invalid_token\r\n",
        ])
    func mendable(_ fields: String) { #expect(Self.refusal(fields) == .token) }

    @Test(
        "insufficient scope is found in any challenge of any field, however it is spelt",
        arguments: [
            "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n",
            "www-authenticate: BEARER realm=\"a, b\" ,ERROR = insufficient_scope, scope=\"a b\"\r\n",
            "WWW-Authenticate: Basic realm=\"x\", Bearer realm=\"y\", error=\"insufficient\\_scope\"\r\n",
            "WWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: DPoP algs=\"ES256\", error=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: Bearer error=invalid_token\r\nA: b\r\nWWW-Authenticate: Bearer error=insufficient_scope\r\n",
            "WWW-Authenticate: Bearer realm=\"x\"\r\nWWW-Authenticate: error=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: ,,broken==\r\nWWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n",
            "WWW-Authenticate: Negotiate abc==, Bearer error=\"insufficient_scope\"\r\n",
        ])
    func scope(_ fields: String) { #expect(Self.refusal(fields) == .insufficientScope) }

    @Test("a request that is itself at fault needs no new token")
    func request() {
        #expect(Self.refusal("WWW-Authenticate: Bearer error=\"invalid_request\"\r\n") == .invalidRequest)
    }
}
