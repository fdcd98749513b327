import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// An OAuth server that refuses each token call, and echoes a field of it in `error_description`: each field of the form and the head, in
/// each form that servers write, whole and cut.
final class EchoingServer: Sendable {
    private let server: RawServer
    /// With which word it ends each description, so that a test sees that words are shown at all.
    static let mark = "echoed-here"

    init() throws {
        let turn = Guarded(0)
        server = try RawServer { request in
            let number = turn.withLock { turn in
                defer { turn += 1 }
                return turn
            }
            return Self.refusal(request.message, number)
        }
    }

    var endpoint: RawEndpoint { server.endpoint }
    /// The calls so far.
    var calls: Int { server.requests.count }
    /// After so many calls of one kind each of its fields but those of types has been echoed in each way.
    static let callsMax = 3 * writings.count

    private static let writings: [@Sendable (String) -> String] = [
        { $0 }, { $0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "" },
        { ($0.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "").replacing("%", with: "%25") },
        { Data($0.utf8).base64EncodedString() }, { String(Data($0.utf8).base64EncodedString().dropFirst(2)) },
        { $0.utf8.map { String(format: "%02x", $0) }.joined() },
        { $0.utf16.map { String(format: "\\u%04x", $0) }.joined() },
        { $0.unicodeScalars.map { "&#\($0.value);" }.joined() }, { String($0.prefix(14)) }, { String($0.suffix(14)) },
        { $0.lowercased() },
    ]

    private static func refusal(_ request: RawMessage, _ number: Int) -> RawResponse {
        let fields = request.bodyText.split(separator: "&").filter { !$0.contains("type=") }
        var values = fields.map { field in
            let value = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).last ?? ""
            return String(value).replacing("+", with: " ").removingPercentEncoding ?? ""
        }
        values.append(String((request["Authorization"] ?? "").dropFirst("Basic ".count)))
        let write = writings[number / values.count % writings.count]
        let description = write(values[number % values.count]) + " \(mark)"
        let quoted = String(decoding: (try? JSONEncoder().encode(description)) ?? Data(), as: UTF8.self)
        return .response(
            400, "Bad Request", fields: [("Content-Type", "application/json")],
            body: #"{"error":"invalid_grant","error_description":\#(quoted)}"#
        ).closing
    }
}
