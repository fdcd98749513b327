import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardRequestPath

@Suite struct WebSocketKeyTests {
    /// Whether a 101 with these lines has the reply to the key.
    private static func isAccepted(_ lines: String, key: String = "dGhlIHNhbXBsZSBub25jZQ==") throws -> Bool {
        let text = Array("HTTP/1.1 101 Ok\r\n\(lines)\r\n".utf8)
        return try text.withUnsafeBufferPointer { bytes in
            let table = FieldTable(capacity: 16)
            var reader = ResponseReader()
            _ = try reader.read(bytes, into: table, isResponseToHead: false)
            return Array(key.utf8).withUnsafeBufferPointer { WebSocketKey.isAccepted(by: table.all, in: bytes, $0) }
        }
    }

    @Test("the reply of RFC 6455 §1.3 is accepted, once and as it is written there")
    func reply() throws {
        let right = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
        #expect(try Self.isAccepted(right))
        #expect(try Self.isAccepted("x: y\r\nsec-websocket-ACCEPT:   s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
        #expect(try !Self.isAccepted(right, key: "dGhlIHNhbXBsZSBub25jZR=="))
        for wrong in [
            "", right + right, right.lowercased(), "Sec-WebSocket-Accept:\r\n", "Sec-WebSocket-Accept: s3p\r\n",
        ] {
            #expect(try !Self.isAccepted(wrong))
        }
    }

    @Test("a key is 16 bytes in base64, and no two are alike")
    func fresh() {
        let keys = Set((0..<100).map { _ in WebSocketKey.withFresh { String(decoding: $0, as: UTF8.self) } })
        #expect(keys.count == 100)
        #expect(
            keys.allSatisfy {
                $0.utf8.count == WebSocketKey.count && $0.hasSuffix("==") && !$0.dropLast(2).contains("=")
            })
    }
}
