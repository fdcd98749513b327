import LanyardFoundations
import LanyardRequestPath
import Testing

@testable import LanyardBroker

/// The responses that have a token (fleet.md 2), byte for byte.
@Suite struct TokenResponseTests {
    private static let user = UserIndex(0)

    private func token(_ text: String) -> AccessToken {
        AccessToken(
            user: Self.user, generation: 7, token: Array(text.utf8).withUnsafeBytes { Secret(copying: $0) },
            waitsFrom: .never, usableUntil: .never)
    }

    private func body(_ interface: TokenGrant.Interface, _ text: String = "abc", expiresIn: Int?) -> String {
        response(interface, text, expiresIn: expiresIn).body.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    private func response(
        _ interface: TokenGrant.Interface, _ text: String = "abc", expiresIn: Int? = 9
    ) -> GrantResponse {
        let grant = TokenGrant(of: Self.user, by: interface, to: "uid:1", audience: "")
        return TokenResponse.make(grant, token(text), user: "alice", expiresIn: expiresIn)
    }

    @Test("each interface has its members, and says seconds alone where they are known")
    func members() {
        #expect(
            body(.token, expiresIn: 9)
                == #"{"access_token":"abc","token_type":"Bearer","user":"alice","generation":7,"expires_in":9}"# + "\n")
        #expect(
            body(.token, expiresIn: nil)
                == #"{"access_token":"abc","token_type":"Bearer","user":"alice","generation":7}"# + "\n")
        let kind = #""issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}"# + "\n"
        #expect(
            body(.oauth2, expiresIn: 9) == #"{"access_token":"abc","token_type":"Bearer","expires_in":9,"# + kind)
        #expect(body(.oauth2, expiresIn: nil) == #"{"access_token":"abc","token_type":"Bearer","# + kind)
        #expect(
            body(.gceMetadata, expiresIn: 9) == #"{"access_token":"abc","token_type":"Bearer","expires_in":9}"# + "\n")
        // google-auth demands a number.
        #expect(
            body(.gceMetadata, expiresIn: nil)
                == #"{"access_token":"abc","token_type":"Bearer","expires_in":3600}"# + "\n")
    }

    @Test("a token is written as JSON, whatever characters it has")
    func escaped() {
        let body = body(.token, "a\"b\\c/=+~", expiresIn: nil)
        #expect(body.hasPrefix(#"{"access_token":"a\"b\\c/=+~","token_type":"#))
    }

    @Test("only the metadata interface has Metadata-Flavor, and only the token endpoint Pragma")
    func fields() {
        func fields(_ interface: TokenGrant.Interface) -> [String] {
            let response = response(interface)
            #expect(response.status == 200 && "\(response.contentType)" == "application/json")
            return response.fields.map { "\($0.name): \($0.value)" }
        }
        #expect(fields(.token) == [])
        #expect(fields(.oauth2) == ["Pragma: no-cache"])
        #expect(fields(.gceMetadata) == ["Metadata-Flavor: Google"])
    }
}
