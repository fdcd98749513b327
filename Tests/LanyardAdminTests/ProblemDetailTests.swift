import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardAdmin
@testable import LanyardRequestPath

/// The JSON of problems, which all listeners share.
@Suite struct ProblemDetailTests {
    private static let hostile = "a\"b\\c\r\nd\u{0}e\u{9b}f\u{2028}g"

    @Test("a quote or a control byte in any value stays inside its string, on the request path")
    func requestPath() throws {
        let problem = Problem(
            name: Self.hostile, status: 503, title: Self.hostile, detail: Self.hostile, error: "x", user: Self.hostile)
        let bytes = problem.json(instance: Self.hostile).bytes
        #expect(!bytes.dropLast().contains { $0 < 0x20 })
        let json = try JSON(bytes)
        #expect(json["type"].string == "urn:lanyard:problem:" + Self.hostile)
        for member in ["title", "detail", "message", "instance", "user"] {
            #expect(json[member].string == Self.hostile)
        }
        #expect(json["status"].int == 503)
    }

    @Test("a quote or a control byte in any value stays inside its string, on the operators' listeners")
    func operators() throws {
        let response = OperatorResponse.problem(409, "name-in-use", Self.hostile, Self.hostile, user: Self.hostile)
        #expect(!response.body.contains { $0 < 0x20 })
        let json = try JSON(response.body)
        for member in ["title", "detail", "message", "user"] { #expect(json[member].string == Self.hostile) }
    }

    @Test("both have the same members in the same order")
    func order() {
        let problem = Problem(
            name: "n", status: 503, title: "T", detail: "D", error: "x", user: "u", action: .operator)
        #expect(
            problem.json(instance: "1").text
                == #"{"type":"urn:lanyard:problem:n","status":503,"title":"T","detail":"D","message":"D","instance":"1","#
                + #""retryable":false,"user":"u","action":"operator"}"# + "\n")
        let response = OperatorResponse.problem(503, "n", "T", "D", user: "u")
        #expect(
            String(decoding: response.body, as: UTF8.self)
                == #"{"type":"urn:lanyard:problem:n","status":503,"title":"T","detail":"D","message":"D","#
                + #""retryable":false,"user":"u","action":"operator"}"#)
    }

    @Test("hexadecimal digits keep their leading zeros", arguments: [(0, 1, "0"), (0x1f, 2, "1f"), (0xa, 4, "000a")])
    func hexadecimal(number: UInt32, count: Int, expected: String) {
        #expect(Hex.text(number, count: count) == expected)
    }
}
