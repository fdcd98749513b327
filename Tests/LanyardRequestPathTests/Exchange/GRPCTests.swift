import LanyardFoundations
import LanyardSettings
import Testing

@testable import LanyardRequestPath

/// What Lanyard reads and writes of gRPC (http2-rules.md H13, H43 to H45).
@Suite struct GRPCTests {
    /// The fields of a head with these lines.
    private static func read<Result>(_ lines: String, _ work: (LanyardRequestPath.FieldLines, Bytes) -> Result) throws
        -> Result
    {
        let table = FieldTable(capacity: 16)
        var text = Array("POST /s/m HTTP/1.1\r\nHost: h\r\n\(lines)\r\n".utf8)
        return try text.withUnsafeMutableBufferPointer { text in
            var reader = RequestReader()
            _ = try reader.read(Bytes(text), into: table, limits: HeadLimits(LimitSettings()))
            return work(table.all, Bytes(text))
        }
    }

    @Test(
        "H13 a call has the media type, alone, with a suffix or parameters",
        arguments: [
            ("application/grpc", true), ("Application/GRPC+proto", true), ("application/grpc;a=b", true),
            ("application/grpc-web", false), ("application/grpcx", false), ("application/json", false), ("", false),
        ])
    func isCall(type: String, expected: Bool) throws {
        #expect(try Self.read("Content-Type: \(type)\r\n", { GRPC.isCall($0, in: $1) }) == expected)
    }

    @Test(
        "H45 a timeout is digits and a unit, and no longer than a day",
        arguments: [
            ("100m", Duration.milliseconds(100)), ("1S", .seconds(1)), ("2M", .seconds(120)), ("3H", .seconds(10_800)),
            ("7u", .microseconds(7)), ("9n", .nanoseconds(9)), ("99999999H", .seconds(86_400)), ("100", nil),
            ("m", nil),
            ("-1S", nil), ("1x", nil), ("123456789S", nil), ("", nil),
        ])
    func timeout(text: String, expected: Duration?) throws {
        #expect(try Self.read("grpc-timeout: \(text)\r\n", { GRPC.timeout($0, in: $1) }) == expected)
    }

    @Test("H43 a message is ASCII, and the rest is percent-encoded")
    func message() {
        var out = HeadWriter()
        GRPC.writeMessage("a%ü\n~", into: &out)
        #expect(String(decoding: out.bytes, as: UTF8.self) == "grpc-message: a%25%C3%BC%0A~\r\n")
    }

    @Test("H44 each problem has a status")
    func statuses() {
        let unavailable = Problem.names.filter { name in
            Problem(name: name, status: 500, title: "", detail: "", error: "").grpcStatus == 14
        }
        #expect(
            unavailable == ["identity-unreachable", "shutting-down", "upstream-invalid", "upstream-unreachable"],
            "the others have one of their own")
    }
}
