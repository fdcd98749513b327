import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

@testable import LanyardClient

/// Bodies of admin calls, and what is read of responses.
@Suite struct RequestBodyTests {
    @Test(
        "each credential has one key and its values escaped",
        arguments: [
            (.anonymous, #"{"anonymous":{}}"#),
            (
                .emailPassword(email: "a\"b@x", password: secret("p\\w\u{7}")),
                #"{"email_password":{"email":"a\"b@x","password":"p\\w\u0007"}}"#
            ),
            (.apiKey(secret("k")), #"{"api_key":{"key":"k"}}"#),
            (.function(payload: secret(#"{"a": [1]}"#)), #"{"function":{"payload":{"a": [1]}}}"#),
            (.jwt(secret("j")), #"{"jwt":{"token":"j"}}"#),
            (.facebook(accessToken: secret("f")), #"{"facebook":{"access_token":"f"}}"#),
            (.googleIDToken(secret("g")), #"{"google":{"id_token":"g"}}"#),
            (.googleAuthCode(secret("g")), #"{"google":{"auth_code":"g"}}"#),
            (.apple(idToken: secret("a")), #"{"apple":{"id_token":"a"}}"#),
        ] as [(LoginMethod<Secret>, String)])
    func credential(_ credential: LoginMethod<Secret>, _ expected: String) {
        var body = RequestBody()
        body.add("name", "bob")
        credential.write(into: &body)
        body.add("activate", false)
        #expect(text(body.seal()) == #"{"name":"bob","credential":\#(expected),"activate":false}"#)
    }

    @Test("an empty body is an empty object, and JSON goes in as it is")
    func shapes() {
        #expect(text(RequestBody().seal()) == "{}")
        var body = RequestBody()
        body.add("arguments", json: secret("[1, {\"a\":2}]"))
        body.add("key", secret("ü"))
        #expect(text(body.seal()) == #"{"arguments":[1, {"a":2}],"key":"ü"}"#)
    }

    @Test("a document as a tree, and what is not one")
    func tree() {
        let value = JSONValue.read(secret(#"{"a":[1,"x",true,null,{"b":{}}],"n":null,"t":"2026-11-21T11:09:12.031Z"}"#))
        #expect(value?["a"]?.elements.count == 5)
        #expect(value?["a"]?.elements[0].integer == 1 && value?["a"]?.elements[1].string == "x")
        #expect(value?["n"] == nil && value?["none"] == nil && value?["t"]?.time != nil)
        for json in ["", "{", "{}x", "{\"a\":1,\"a\":2}", "nul"] {
            #expect(JSONValue.read(secret(json)) == nil)
        }
    }

    @Test("a secret member is found between others, and only as a string of the top level")
    func member() {
        let document = secret(#"{"x":{"key":"no"},"key":"a\"b","y":1}"#)
        #expect(JSONSecret.member("key", of: document).map(text) == "a\"b")
        #expect(JSONSecret.member("y", of: document) == nil)
        #expect(JSONSecret.member("z", of: document) == nil)
        #expect(JSONSecret.member("key", of: secret("[]")) == nil)
    }

    @Test("a segment of a path has no character that could end it")
    func segment() {
        #expect(AdminClient.segment("a-Z_0.~") == "a-Z_0.~")
        #expect(AdminClient.segment("a/b?c#ü %") == "a%2fb%3fc%23%c3%bc%20%25")
    }

    @Test(
        "a JSON argument must be one document of its kind",
        arguments: [
            ("{}", .object, nil), ("[]", .array, nil), ("1", .any, nil), ("[]", .object, "x is not a JSON object"),
            ("{}", .array, "x is not a JSON array"), ("Ada", .any, "x is not JSON from byte 0 on"),
            ("1 2", .any, "x is not JSON from byte 2 on"),
        ] as [(String, SecretInput.JSONKind, String?)])
    func document(_ json: String, _ kind: SecretInput.JSONKind, _ fault: String?) {
        do throws(InputError) {
            try SecretInput.check(secret(json), kind, named: "x")
            #expect(fault == nil)
        } catch {
            #expect(error.message == fault.map { "\($0): nothing was sent" })
        }
    }
}

private func secret(_ text: String) -> Secret {
    var buffer = SecretBuffer()
    buffer.append(text)
    return buffer.seal()
}

private func text(_ secret: Secret) -> String {
    secret.withBytes { String(decoding: $0, as: UTF8.self) }
}
