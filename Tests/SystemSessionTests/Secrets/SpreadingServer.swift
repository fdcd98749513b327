import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// An OAuth server that writes each secret of a call, and each token of its response, into each member of the response that Lanyard reads.
final class SpreadingServer: Sendable {
    private let server: RawServer
    private let issued: Issued

    /// The tokens that it gives out. They are few: each is searched for in all that Lanyard says.
    private final class Issued: Sendable {
        let tokens = (0..<4).map { _ in
            let letters = Array("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
            return String((0..<48).map { _ in letters.randomElement() ?? "x" })
        }
        let calls = Guarded(0)

        func nextCall() -> Int {
            calls.withLock { calls in
                defer { calls += 1 }
                return calls
            }
        }
    }

    init() throws {
        let issued = Issued()
        self.issued = issued
        server = try RawServer { request in Self.response(to: request.message, issued) }
    }

    var endpoint: RawEndpoint { server.endpoint }
    /// The calls so far.
    var calls: Int { issued.calls.withLock { $0 } }
    var tokens: [String] { issued.tokens }
    /// After so many calls each of five secrets has been in each member.
    static let callsMax = 5 * members.count

    private static let members: [@Sendable (_ value: String, _ tokens: String, _ access: String) -> (Int, String)] =
        errors + successes

    private static let errors: [@Sendable (_ value: String, _ tokens: String, _ access: String) -> (Int, String)] = [
        { value, tokens, _ in (400, #"{"error":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (401, #"{"error_code":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (400, #"{"errorCode":\#(value),"code":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (200, #"{"error":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (400, #"{"error":"x","error_description":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (403, #"{"error":{"message":\#(value),"status":\#(value)},\#(tokens)}"#) },
    ]

    private static let successes: [@Sendable (_ value: String, _ tokens: String, _ access: String) -> (Int, String)] = [
        { value, tokens, _ in (200, #"{"token_type":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (200, #"{"token_type":"bearer","scope":\#(value),\#(tokens)}"#) },
        { value, tokens, _ in (200, #"{"token_type":"bearer","scope":["a",\#(value)],\#(tokens)}"#) },
        { value, tokens, access in
            let token = Tokens.jwt(#"{"aud":\#(value),"jti":"\#(access)"}"#)
            let others = tokens.replacing("access_token", with: "token")
            return (200, #"{"access_token":"\#(token)","token_type":"bearer",\#(others)}"#)
        },
        { value, tokens, _ in
            let token = Tokens.jwt(#"{"iss":\#(value),"sub":\#(value),"aud":"canary","exp":9999999999,"iat":1}"#)
            return (200, #"{"token_type":"bearer","id_token":"\#(token)",\#(tokens)}"#)
        },
    ]

    /// As it is, in small letters, and the beginning within a word.
    private static let writings: [@Sendable (String) -> String] = [
        { $0 }, { $0.lowercased() }, { "x_" + $0.filter(\.isLetter).prefix(40) },
    ]

    private static func response(to request: RawMessage, _ issued: Issued) -> RawResponse {
        let number = issued.nextCall()
        let (access, refresh) = (issued.tokens[number % 2], issued.tokens[2 + number % 2])
        let fields = request.bodyText.split(separator: "&").filter { field in
            ["password=", "refresh_token=", "client_secret="].contains(where: field.hasPrefix)
        }
        let sent = fields.map { field in
            let value = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).last ?? ""
            return String(value).replacing("+", with: " ").removingPercentEncoding ?? ""
        }
        let values = sent + [access, refresh]
        let value = writings[number % writings.count](values[number / members.count % values.count])
        let quoted = String(decoding: (try? JSONEncoder().encode(value)) ?? Data(), as: UTF8.self)
        let tokens = #""access_token":"\#(access)","refresh_token":"\#(refresh)","expires_in":600"#
        let (status, body) = members[number % members.count](quoted, tokens, access)
        return .response(status, "X", fields: [("Content-Type", "application/json")], body: body).closing
    }
}
